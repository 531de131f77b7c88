"""Which tests concern which module of the core: those that are quick come first, as the first failure ends a run.

A module's own examples come before all. Of several entries that a path begins with the longest counts. Tests of tests
(an oracle), of Spark and of whole processes are left out: what they alone find is no matter of the core.
"""

from __future__ import annotations

_CONSTRAINTS = (
    "tests/unit/test_constraints.py",
    "tests/properties/test_domain.py",
    "tests/unit/test_sentences.py",
    "tests/properties/test_sentences.py",
    "tests/unit/test_rules_files.py",
)
_INDEXES = (
    "tests/properties/test_zone_tree.py",
    "tests/properties/test_row_set.py",
    "tests/properties/test_stable_codes.py",
    "tests/properties/test_texts.py",
    "tests/properties/test_rule_laws.py",
    "tests/state/test_saved_maintainers.py",
    "tests/unit/test_maintainer.py",
    "tests/properties/test_maintainer_laws.py",
)
_DISCOVERY = (
    "tests/properties/test_evidences.py",
    "tests/properties/test_violations.py",
    "tests/properties/test_anchors.py",
    "tests/properties/test_ranking.py",
    "tests/properties/test_certificate.py",
    "tests/properties/test_discover.py",
    "tests/properties/test_discover_order.py",
)
_BLOCKS = (
    "tests/unit/test_blocks_reading.py",
    "tests/unit/test_live_blocks.py",
    "tests/unit/test_kept.py",
    "tests/properties/test_blocks.py",
    "tests/properties/test_block_rules.py",
    "tests/properties/test_value_parts.py",
    "tests/properties/test_block_laws.py",
)
_DETECTION = (
    "tests/properties/test_detection.py",
    "tests/properties/test_known_rules.py",
    "tests/properties/test_rule_laws.py",
    "tests/unit/test_check_command.py",
    "tests/properties/test_block_rules.py",
)
_INCLUSION = (
    "tests/properties/test_discover_inclusion.py",
    "tests/properties/test_inclusion_laws.py",
    "tests/properties/test_known_inclusions.py",
    "tests/properties/test_value_parts.py",
)
_MAINTAINERS = (
    "tests/unit/test_maintainer.py",
    "tests/properties/test_rule_laws.py",
    "tests/state/test_saved_maintainers.py",
    "tests/properties/test_maintainer_laws.py",
)
_IN_BLOCKS = (
    "tests/unit/test_live_blocks.py",
    "tests/properties/test_block_rules.py",
    "tests/properties/test_block_laws.py",
)

TESTS: dict[str, tuple[str, ...]] = {
    "constraints/": _CONSTRAINTS,
    "constraints/changes.py": (*_CONSTRAINTS, "tests/unit/test_maintainer.py", "tests/unit/test_replay_command.py"),
    "constraints/conditions.py": (*_CONSTRAINTS, "tests/properties/test_detection.py"),
    "constraints/elsewhere.py": ("tests/properties/test_concentration.py",),
    "constraints/errors.py": (*_CONSTRAINTS, "tests/unit/test_check_command.py"),
    "constraints/identity.py": (*_CONSTRAINTS, "tests/unit/test_discover_command.py"),
    "constraints/inclusion.py": (*_CONSTRAINTS, *_INCLUSION[:2]),
    "constraints/near.py": ("tests/unit/test_near_constraints.py", *_CONSTRAINTS),
    "constraints/order.py": (*_CONSTRAINTS, "tests/properties/test_discover_order.py"),
    "constraints/rules.py": (*_CONSTRAINTS, "tests/properties/test_detection.py", "tests/unit/test_check_command.py"),
    "constraints/space.py": (*_CONSTRAINTS, "tests/properties/test_discover.py"),
    "constraints/types.py": (*_CONSTRAINTS, "tests/properties/test_inference.py"),
    "constraints/values.py": (*_CONSTRAINTS, "tests/properties/test_inference.py"),
    "indexes/": _INDEXES,
    "indexes/counting_index.py": ("tests/properties/test_rule_laws.py", "tests/properties/test_block_rules.py"),
    "indexes/group_counts.py": ("tests/properties/test_rule_laws.py", "tests/properties/test_block_rules.py"),
    "indexes/kernels/count.py": (
        "tests/properties/test_rule_laws.py",
        "tests/properties/test_detection.py",
        "tests/properties/test_block_rules.py",
    ),
    "indexes/kernels/evidences.py": ("tests/properties/test_evidences.py", "tests/properties/test_zone_tree.py"),
    "indexes/kernels/groups.py": (
        "tests/properties/test_rule_laws.py",
        "tests/properties/test_block_rules.py",
    ),
    "indexes/kernels/probe.py": (
        "tests/properties/test_zone_tree.py",
        "tests/properties/test_rule_laws.py",
        "tests/unit/test_maintainer.py",
        "tests/properties/test_maintainer_laws.py",
    ),
    "indexes/kernels/rows.py": (
        "tests/properties/test_row_set.py",
        "tests/properties/test_block_rules.py",
        "tests/state/test_saved_maintainers.py",
        "tests/properties/test_maintainer_laws.py",
    ),
    "indexes/kernels/texts.py": (
        "tests/properties/test_texts.py",
        "tests/properties/test_stable_codes.py",
        "tests/state/test_saved_maintainers.py",
    ),
    "indexes/kernels/zones.py": (
        "tests/properties/test_zone_tree.py",
        "tests/properties/test_rule_laws.py",
        "tests/properties/test_maintainer_laws.py",
    ),
    "indexes/growing.py": ("tests/properties/test_row_set.py", "tests/properties/test_texts.py"),
    "indexes/sorted_groups.py": ("tests/properties/test_block_rules.py",),
    "discovery/": _DISCOVERY,
    "discovery/blocks/": _BLOCKS,
    "discovery/blocks/counting/near.py": ("tests/properties/test_block_near.py",),
    "discovery/blocks/counting/near_tasks.py": ("tests/properties/test_block_near.py",),
    "discovery/evidence/certificate.py": (*_DISCOVERY, *_MAINTAINERS),
    "discovery/detection/": _DETECTION,
    "discovery/inclusion/": _INCLUSION,
    "discovery/kernels/concentration.py": ("tests/properties/test_concentration.py",),
    "discovery/kernels/contexts.py": (*_DISCOVERY[-1:], *_MAINTAINERS),
    "discovery/kernels/certificate.py": ("tests/properties/test_certificate.py", *_MAINTAINERS),
    "discovery/kernels/covers.py": ("tests/properties/test_certificate.py", *_MAINTAINERS),
    "discovery/kernels/detection.py": _DETECTION,
    "discovery/kernels/near.py": ("tests/properties/test_discover_near.py",),
    "discovery/kernels/near_removal.py": ("tests/properties/test_discover_near.py",),
    "discovery/kernels/order.py": (*_DISCOVERY[-1:], *_MAINTAINERS),
    "discovery/kernels/partitions.py": (*_DISCOVERY, *_MAINTAINERS),
    "discovery/denial/covers.py": (*_DISCOVERY, *_MAINTAINERS),
    "discovery/kernels/suspects.py": ("tests/properties/test_suspects.py",),
    "discovery/near/suspects.py": ("tests/properties/test_suspects.py", "tests/properties/test_live_suspects.py"),
    "streaming/maintainers/near/suspects.py": ("tests/properties/test_live_suspects.py",),
    "discovery/near/": ("tests/properties/test_discover_near.py",),
    "discovery/near/chance.py": ("tests/properties/test_concentration.py",),
    "discovery/near/concentration.py": ("tests/properties/test_concentration.py",),
    "discovery/near/where.py": ("tests/properties/test_concentration.py",),
    "discovery/order/": (*_DISCOVERY[-1:], *_MAINTAINERS),
    "streaming/maintainers/": (*_MAINTAINERS, *_IN_BLOCKS),
    "streaming/maintainers/inclusion/across.py": (*_INCLUSION, "tests/unit/test_display.py"),
    "streaming/maintainers/batches.py": ("tests/unit/test_display.py", *_MAINTAINERS[:1]),
    "streaming/maintainers/table/batch_result.py": ("tests/unit/test_display.py", *_MAINTAINERS[:1]),
    "streaming/maintainers/table/evolving.py": (
        "tests/properties/test_evolving.py",
        "tests/unit/test_evolution_plan.py",
        "tests/properties/test_block_evolving.py",
    ),
    "streaming/maintainers/inclusion/held_values.py": _INCLUSION,
    "streaming/maintainers/inclusion/maintainer.py": _INCLUSION,
    "streaming/maintainers/near/": ("tests/properties/test_near_maintainer.py", "tests/properties/test_block_near.py"),
    "streaming/maintainers/table/maintainer.py": (*_MAINTAINERS, "tests/properties/test_netting.py", *_IN_BLOCKS),
    "streaming/maintainers/rules/values.py": (*_INCLUSION, "tests/properties/test_rule_laws.py"),
    "streaming/incoming/netting.py": ("tests/properties/test_netting.py", "tests/properties/test_maintainer_laws.py"),
    "state/codecs.py": (
        "tests/state/test_stores.py",
        "tests/state/test_pieces.py",
        "tests/state/test_commits.py",
        "tests/state/test_formats.py",
        "tests/state/test_saved_maintainers.py",
        "tests/recovery/test_pipeline.py",
    ),
    "state/commits.py": (
        "tests/state/test_commits.py",
        "tests/state/test_snapshots.py",
        "tests/state/test_formats.py",
        "tests/recovery/test_pipeline.py",
    ),
}
_TWINS = {
    "indexes/kernels/zones.py": "tests/properties/test_zone_kernels.py",
    "indexes/kernels/probe.py": "tests/properties/test_probe_kernels.py",
    "indexes/kernels/evidences.py": "tests/properties/test_probe_kernels.py",
    "indexes/kernels/groups.py": "tests/properties/test_group_kernels.py",
    "discovery/kernels/partitions.py": "tests/properties/test_partition_kernels.py",
    "discovery/kernels/hitting_sets.py": "tests/properties/test_hitting_sets.py",
}
"""Kernels beside their plain twins."""


def concerning(path: str) -> tuple[str, ...]:
    """Return what pytest is to run for a module, in that order."""
    entry = max((prefix for prefix in TESTS if path.startswith(prefix)), key=len)
    return f"holdfast/{path}", *([_TWINS[path]] if path in _TWINS else []), *TESTS[entry]
