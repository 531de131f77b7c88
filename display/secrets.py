"""Masks secrets in texts and settings before they are printed, logged or served.

A secret is recognised by its form (the user part of an address, the value of a name such as `password`), or is known
from a configuration: `remember` masks its secrets from then on, in whichever text an engine quotes them.

Invariant: no text leaves `masked` with a secret of a known form; masking a text twice changes nothing more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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

# No pattern begins with a repetition: texts of any length are masked in a time that grows as they do.
_USER_PART = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{0,30}://)(?:[^\s/?#'\"]{0,1000}|[^\s/?#'\"@:]{0,100}:[^\s'\"]{0,300})@"
)
_ASSIGNED = re.compile(
    r"""(?ix)
    (?P<name> (?:password|passwd|passphrase|pwd|secret|token|credential|signature|api[._-]?key
        |access[._-]?key|account[._-]?key|private[._-]?key|\bsig|\bsas|key[._-]?material|jaas[._-]?config)
        [\w.-]{0,100} ["']?
        \s*+ (?: = | :(?!//)\s+ | :(?=["']) ) \s*+ )
    (?P<value> (?: "[^"\n]*" | '[^'\n]*' ) [^\s,;&'")\]}]* | [^\s,;&'")\]}]+ )
    """
)
_NAME_BEFORE = re.compile(r"[\w.-]+\s*\S*\s*\Z")
_CELL = re.compile(r"[ts][012]?\.")
_CELL_ALONE = re.compile(r"[ts][012]?\.[^?&=:@/]+")
_ROUNDS = 10
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_HOOK_PATH = re.compile(r"https?://[^/\s?#]+([/?#].{3,})", re.IGNORECASE | re.DOTALL)
_LONGEST_NAME = 300
_TOKEN = 8
_HOOK = re.compile(r"(https?://[^/\s?#]+)[/?#].*", re.IGNORECASE | re.DOTALL)


def masked(text: str) -> str:
    """Return a text with all secrets masked that are known, or recognised by their form.

    Examples
    --------
    >>> masked("cannot open s3://AKIA:abc@bucket/x?sig=f00&v=1, password=hunter2")
    'cannot open s3://***@bucket/x?sig=***&v=1, password=***'
    """
    text = without(_known, text)
    for _ in range(_ROUNDS):  # masking a secret may expose the form of another one
        before, text = text, _masked_by_form(text)
        if text == before:
            break
    return text


def _masked_by_form(text: str) -> str:
    text = _PEM.sub(MASK, text)
    text = _USER_PART.sub(rf"\1{MASK}@", text)
    text = _ASSIGNED.sub(_masked_assignment, text)
    text = _AUTHORIZATION.sub(rf"\1 {MASK}", text)
    return _ACCESS_KEY.sub(MASK, text)


def _masked_assignment(match: re.Match[str]) -> str:
    """Mask the value of an assignment, unless it is a comparison in a constraint: `t.token = s.token`."""
    start = match.start()
    name = _NAME_BEFORE.search(match.string[max(0, start - 100) : start] + match["name"])
    cells = name and _CELL.match(name[0]) and _CELL_ALONE.fullmatch(match["value"])
    return match[0] if cells else match["name"] + MASK


def without(secrets: Iterable[str], text: str) -> str:
    """Return a text with these secrets masked."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


_known: set[str] = set()
SHORTEST_SECRET = 4

OPEN_ENDED = frozenset({"options", "storage_options", "headers"})
"""Settings that are passed on to other software: any of them may be a secret."""


def remember(secrets: Iterable[str]) -> None:
    """Mask these texts from now on, in this process."""
    _known.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


def forget() -> None:
    """Forget remembered secrets before another command; secrets of a known form stay masked."""
    _known.clear()


def known() -> frozenset[str]:
    """Return the secrets that are remembered."""
    return frozenset(_known)


def secrets_in(settings: Any, name: str = "", around: str = "") -> Iterator[str]:
    """Yield the texts in settings that are secrets: by their name, their section, or their form.

    Parameters
    ----------
    name, around : the key of the settings, and the key of the section around them.

    Examples
    --------
    >>> given = {"kafka.sasl.jaas.config": "x required username=a password='b1b2';", "kafka.group.id": "readers"}
    >>> sorted(secrets_in({"options": given, "path": "s3://k:p4ss@b/x", "webhook": "https://h.example/T1"}))
    ['b1b2', 'k:p4ss', 'p4ss', "x required username=a password='b1b2';"]
    """
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            yield from secrets_in(value, str(key), name)
    elif isinstance(settings, (list, tuple)):
        for value in settings:
            yield from secrets_in(value, name, around)
    elif isinstance(settings, str):
        if (name and is_secret(name)) or around == "headers":
            yield settings
        if around == "headers":  # as in `Bearer <token>`
            yield from (word for word in settings.split() if len(word) >= _TOKEN)
        for user in _USER_PART.finditer(settings):
            part = user[0].removesuffix("@").partition("://")[2]
            yield from (part, part.partition(":")[2])
        for assigned in _ASSIGNED.finditer(settings):
            yield assigned["value"].strip("\"'")
        if name == "webhook" and (address := _HOOK_PATH.match(settings)) is not None:
            yield from (word for word in re.split(r"[/?#&=]", address[1]) if len(word) >= _TOKEN)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret.

    >>> [is_secret(n) for n in ("kafka.ssl.keystore.password", "aws_secret_access_key", "key", "ssl.key.location")]
    [True, True, False, False]
    """
    if len(name) > _LONGEST_NAME:  # no setting has such a name
        return True
    return _SECRET_NAME.fullmatch(name) is not None and _HARMLESS_NAME.fullmatch(name) is None


def masked_settings(settings: Any, name: str = "") -> Any:
    """Return settings of any depth with every secret masked; `name` is the key of the settings.

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
