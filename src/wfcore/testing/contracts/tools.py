"""The contract of tool catalogs, as a suite to inherit.

An adapter's author writes one method:

    class TestMyTools(ToolsContract):
        def open_tools(self) -> Tools:
            return MyTools()

The catalog holds at least one tool. Needs the extra `testing`.
"""

import inspect
import re
from abc import abstractmethod

import pytest

from wfcore.domain.json.schema import schema_issues
from wfcore.ports.providers import Tool, Tools

_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)


class ToolsContract:
    """Inherit, name the class `Test...`, and write `open_tools`."""

    @abstractmethod
    def open_tools(self) -> Tools:
        """A catalog with some tools."""

    @pytest.fixture
    def tools(self) -> Tools:
        return self.open_tools()

    def test_tools_come_by_id(self, tools: Tools) -> None:
        """All tools are listed once, in order of their ids, and each is found by its id."""
        ids = [each.id for each in tools.all()]
        assert ids
        assert ids == sorted(set(ids))
        assert [tools.get(tool_id) for tool_id in ids] == list(tools.all())

    @pytest.mark.parametrize("tool_id", ["", "no_such_tool", "CORE.WAIT", "a" * 129, "\x00", "core."])
    def test_an_unknown_id_is_none(self, tools: Tools, tool_id: str) -> None:
        """Any id that the catalog does not have returns None."""
        assert tools.get(tool_id) is None

    def test_ids_and_names_are_valid(self, tools: Tools) -> None:
        """An id has only allowed characters, and every tool has a name."""
        assert [each.id for each in tools.all() if not _ID.fullmatch(each.id)] == []
        assert [each.id for each in tools.all() if not each.name.strip()] == []

    def test_parameters_are_schemas_of_objects(self, tools: Tools) -> None:
        """The parameters of a tool are a valid JSON Schema of an object."""
        for each in tools.all():
            assert each.parameters["type"] == "object"
            assert schema_issues(each.parameters, each.id) == []

    def test_async_tools_say_so(self, tools: Tools) -> None:
        """A tool with an `async def` is marked so: it is awaited and gets no thread."""
        for each in tools.all():
            assert each.is_async or not inspect.iscoroutinefunction(each.run)

    def test_the_same_id_means_the_same_tool(self, tools: Tools) -> None:
        """Repeated lookups return the same tools."""
        before: list[Tool] = list(tools.all())
        assert list(tools.all()) == before
        assert all(tools.get(each.id) == each for each in before)
