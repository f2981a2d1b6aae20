"""Settings whose representation leaves out secrets: reports of errors have the representation of variables."""

from typing import Any, ClassVar


class WithSecrets:
    """A struct of msgspec whose representations, that of rich too, leave out the fields in `SECRET`."""

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]

    SECRET: ClassVar[frozenset[str]]
    """The fields that are secret or can contain a secret, as the URL of a server with a password."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.SECRET]
