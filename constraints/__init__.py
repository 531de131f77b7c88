"""The domain: columns, predicates, constraints, rules, changes and their text forms.

Immutable values that check themselves when they are built, and no engine in sight. `str(x)` of a constraint
reads like the papers, and parsing it gives `x` back.
"""

from holdfast.constraints.changes import ConstraintChange, Reason, RowImage, Violation
from holdfast.constraints.columns import Column, ColumnRef, Schema
from holdfast.constraints.conditions import Condition
from holdfast.constraints.denial import DenialConstraint, DenialKind
from holdfast.constraints.errors import (
    BackupDamaged,
    ConstraintSyntaxError,
    ExternalError,
    HoldfastError,
    InputError,
    StateBehindBackup,
    StateDamaged,
    StateFormatUnknown,
    StateInUse,
    StateMissing,
    StateOfAnotherApplication,
    StateRefused,
    StateTakenOver,
    StateUnreachable,
    UnknownColumn,
    UsageError,
)
from holdfast.constraints.identity import Constraint, constraint_fields, constraint_id
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.near import NearConstraint, NearShape, near_form, parse_near, parse_share
from holdfast.constraints.nulls import Nulls, NullsApart, RulePart, with_nulls
from holdfast.constraints.operators import Operator
from holdfast.constraints.order import OrderDependency, OrderKind
from holdfast.constraints.parsing import (
    parse_condition,
    parse_constraint,
    parse_denial,
    parse_forbidden,
    parse_functional_dependencies,
    parse_functional_dependency,
    parse_inclusion,
    parse_order,
    parse_required,
    parse_rule_body,
    parse_rule_parts,
)
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.rules import Rule, Severity, Threshold
from holdfast.constraints.sentences import sentence
from holdfast.constraints.space import ColumnPair, PredicateSpace
from holdfast.constraints.types import ColumnType, Family, TypeGroup, parse_type
from holdfast.constraints.values import Value, json_value, read_value

__all__ = [
    "BackupDamaged",
    "Column",
    "ColumnPair",
    "ColumnRef",
    "ColumnType",
    "Condition",
    "Constraint",
    "ConstraintChange",
    "ConstraintSyntaxError",
    "DenialConstraint",
    "DenialKind",
    "ExternalError",
    "Family",
    "HoldfastError",
    "InclusionDependency",
    "InputError",
    "NearConstraint",
    "NearShape",
    "Nulls",
    "NullsApart",
    "Operator",
    "OrderDependency",
    "OrderKind",
    "Predicate",
    "PredicateSpace",
    "Reason",
    "RowImage",
    "Rule",
    "RulePart",
    "Schema",
    "Severity",
    "StateBehindBackup",
    "StateDamaged",
    "StateFormatUnknown",
    "StateInUse",
    "StateMissing",
    "StateOfAnotherApplication",
    "StateRefused",
    "StateTakenOver",
    "StateUnreachable",
    "Threshold",
    "TypeGroup",
    "UnknownColumn",
    "UsageError",
    "Value",
    "Violation",
    "constraint_fields",
    "constraint_id",
    "json_value",
    "near_form",
    "parse_condition",
    "parse_constraint",
    "parse_denial",
    "parse_forbidden",
    "parse_functional_dependencies",
    "parse_functional_dependency",
    "parse_inclusion",
    "parse_near",
    "parse_order",
    "parse_required",
    "parse_rule_body",
    "parse_rule_parts",
    "parse_share",
    "parse_type",
    "read_value",
    "sentence",
    "with_nulls",
]
