"""Contract suites for the ports. Failed assertions show values, as in a test module."""

from pkgutil import iter_modules

import pytest

pytest.register_assert_rewrite(*(module.name for module in iter_modules(__path__, f"{__name__}.")))
