"""Settings of an installation: a TOML file, `WFCORE_...` variables, and the adapters that they configure."""

from wfcore.settings.installation import Configuration, load
from wfcore.settings.models import BadSettings, ModelSettings

__all__ = ["BadSettings", "Configuration", "ModelSettings", "load"]
