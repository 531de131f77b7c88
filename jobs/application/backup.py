"""Opens the backup of a configuration: a folder, or an address of an object store."""

from pathlib import Path

from holdfast.constraints import ExternalError
from holdfast.display.secrets import masked
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.settings import Settings
from holdfast.state.places import Folder, Place, StoreError, object_place


def backup_of(settings: Settings) -> Place:
    """Return the backup that the settings name."""
    if not is_remote(settings.backup):
        return Folder(Path(settings.backup))
    try:
        return object_place(settings.backup, settings.storage_options)
    except StoreError as error:
        raise ExternalError(
            f"backup: {masked(settings.backup)} cannot be used: {error}. Correct the address, or 'storage_options'"
        ) from error
