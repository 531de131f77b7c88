"""Makes the alerts of a configuration, their receivers and their sender."""

from holdfast.display.secrets import MASK, SHORTEST_SECRET, masked, masked_settings, without
from holdfast.jobs.configuration.mutes_file import mutes_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import AlertSettings, Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.store import Store
from holdfast.streaming.alerts.deciding import Alert
from holdfast.streaming.alerts.posting import Receiver
from holdfast.streaming.alerts.sending import Sender
from holdfast.streaming.alerts.waiting import Waiting


def alerts_of(settings: Settings) -> list[Alert]:
    """Return the alerts, in the order of the configuration, without muted constraints."""
    mutes = mutes_of(settings)
    return [Alert(frozenset(s.on), s.rule, s.table, s.family, s.kind, mutes) for s in settings.alerts]


def waiting_of(settings: Settings, store: Store) -> Waiting:
    """Return the queue of messages in a store."""
    return Waiting(store, alerts_of(settings))


def sender_of(configuration: Configuration, waiting: Waiting, progress: Progress) -> Sender:
    """Return the sender of alerts; its notes go to `progress`, with secrets masked."""
    alerts = configuration.settings.alerts
    secrets = {text for alert in alerts for text in _secrets(alert)}

    def all_masked(text: str) -> str:
        return masked(without(secrets, text))

    return Sender(
        waiting,
        {channel: _receiver(alert) for channel, alert in zip(waiting.channels, alerts, strict=True)},
        lambda text, level: progress.note(text, level=level, event="alert"),
        all_masked,
    )


def _receiver(alert: AlertSettings) -> Receiver:
    address = masked_settings({"webhook": alert.webhook})["webhook"]
    about = [text for text in (alert.rule, alert.table, alert.family, alert.kind) if text is not None]
    name = f"alert {', '.join(alert.on)} of {', '.join(about) or 'everything'} to {address}"
    return Receiver(alert.webhook, alert.headers, name)


def _secrets(alert: AlertSettings) -> list[str]:
    """Return the secrets of an alert: the path of its address, and the values of its headers."""
    behind = alert.webhook.partition("://")[2].partition("/")[2]
    return [text for text in (behind, *alert.headers.values()) if len(text) >= SHORTEST_SECRET and text != MASK]
