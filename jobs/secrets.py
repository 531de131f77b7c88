"""Masking: the one place that decides what may be shown of a setting.

A message, a summary or a log line passes through here before a person sees it. Invariant: the user part of an
address, and the value of anything that is named like a secret, never come out; masking a text twice changes
nothing more.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"

_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|authorization|signature|sas|jaas[._-]?config|"
    r"(?:api|access|account|private|secret|encryption|shared|storage|master|client|ssl)[._-]?key|key[._-]?material|"
    r"cookie|bearer"
)
_RUN_TOGETHER = r"password|secret|token|accesskey|apikey|privatekey"
_SECRET_NAME = re.compile(
    rf"[\w.-]*?(?<![A-Za-z])(?:{_WORDS})(?![a-z])[\w.-]*|[\w.-]*(?:{_RUN_TOGETHER})[\w.-]*", re.IGNORECASE
)
_HARMLESS_NAME = re.compile(
    r"null_tokens|.*(?:location|path|file|url|uri|endpoint|type|provider|class|enabled|alias)", re.IGNORECASE
)

_USER_PART = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#'\"]*@")
_ASSIGNED = re.compile(
    r"""(?ix)
    (?P<name> ["']? [\w.-]* (?:password|passwd|passphrase|pwd|secret|token|credential|signature|api[._-]?key
        |access[._-]?key|account[._-]?key|private[._-]?key|\bsig|\bsas|key[._-]?material|jaas[._-]?config) [\w.-]* ["']?
        \s* (?: = | :(?!//)\s+ | :(?=["']) ) \s* )
    (?P<value> "[^"\n]*" | '[^'\n]*' | [^\s,;&'")\]}]+ )
    """
)
_CELL = re.compile(r"[ts][012]?\.")
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_HOOK = re.compile(r"(https?://[^/\s?#]+)[/?#].*", re.IGNORECASE | re.DOTALL)


def masked(text: str) -> str:
    """Return `text` without the secrets that can be told by their form.

    Examples
    --------
    >>> masked("cannot open s3://AKIA:abc@bucket/x?sig=f00&v=1, password=hunter2")
    'cannot open s3://***@bucket/x?sig=***&v=1, password=***'
    """
    text = _PEM.sub(MASK, text)
    text = _USER_PART.sub(rf"\1{MASK}@", text)
    text = _ASSIGNED.sub(_masked_assignment, text)
    text = _AUTHORIZATION.sub(rf"\1 {MASK}", text)
    return _ACCESS_KEY.sub(MASK, text)


def _masked_assignment(match: re.Match[str]) -> str:
    """Mask the value, unless it is a constraint's comparison of two cells: `t.token = s.token`."""
    cells = _CELL.match(match["name"]) and _CELL.match(match["value"])
    return match[0] if cells else match["name"] + MASK


def without(secrets: Iterable[str], text: str) -> str:
    """Return `text` with these secrets masked, wherever they stand."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret.

    >>> [is_secret(n) for n in ("kafka.ssl.keystore.password", "aws_secret_access_key", "key", "ssl.key.location")]
    [True, True, False, False]
    """
    return _SECRET_NAME.fullmatch(name) is not None and _HARMLESS_NAME.fullmatch(name) is None


def masked_settings(settings: Any, name: str = "") -> Any:
    """Return settings of any depth with every secret replaced; `name` is the key under which they stand.

    Examples
    --------
    >>> masked_settings({"account_key": "abc", "topic": "tax", "webhook": "https://hooks.example/T1/B2"})
    {'account_key': '***', 'topic': 'tax', 'webhook': 'https://hooks.example/***'}
    """
    if name and settings is not None and not isinstance(settings, bool) and is_secret(name):
        return MASK
    if isinstance(settings, Mapping):
        return {str(key): masked_settings(value, str(key)) for key, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [masked_settings(value, name) for value in settings]
    if isinstance(settings, str):
        shown = masked(settings)
        return _HOOK.sub(rf"\1/{MASK}", shown) if name == "webhook" else shown
    return settings
