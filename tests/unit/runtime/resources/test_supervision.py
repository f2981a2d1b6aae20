"""Skills that supervise skills, through the library (interface, Scope)."""

from typing import Any

import pytest
from bench import Bench, paths

from wfcore.domain.json.values import to_json
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.domain.resources.supervision import DESCRIPTIONS, IDS, MAX_DEPTH
from wfcore.runtime.resources import supervision

pytestmark = pytest.mark.anyio

BAD_LINKS: list[tuple[Any, Any, str, str]] = [
    ({IDS: [1]}, Malformed, f"{IDS}[0]", "type"),
    ({IDS: ["x"]}, Invalid, f"{IDS}[0]", "pattern"),
    ({IDS: ["1", "1"]}, Invalid, f"{IDS}[1]", "duplicate"),
    ({IDS: ["77"]}, Invalid, f"{IDS}[0]", "reference"),
    ({DESCRIPTIONS: {"1": "x"}}, Invalid, f"{DESCRIPTIONS}.1", "reference"),
    ({"model": "m"}, Invalid, "model", "unknown"),
]


async def new_skill(bench: Bench, *below: int, by: Any = None, **fields: Any) -> int:
    """A deployed skill that supervises these."""
    links = {"supervision_subordinate_ids": [str(number) for number in below]} if below else {}
    number = (await bench.core.skills.create(by or bench.me, name="s", **links, **fields)).id
    await bench.core.skills.deploy(by or bench.me, number)
    return number


async def supervise(bench: Bench, number: int, *below: int, who: Any = None) -> Any:
    return await bench.core.skills.supervise(who or bench.me, number, {IDS: [str(one) for one in below]})


class TestSupervise:
    """`PUT` edits the draft."""

    async def test_links_are_put_as_a_whole_into_the_draft(self, bench: Bench) -> None:
        """An absent field becomes empty; other content stays; the active variation does not change."""
        first, second = await new_skill(bench), await new_skill(bench)
        top = await new_skill(bench, instructions=["lead"])
        body = {IDS: [str(first), str(second)], DESCRIPTIONS: {str(first): "does it"}}
        view = await bench.core.skills.supervise(bench.me, top, body)
        assert {name: to_json(view.variation.skill)[name] for name in body} == body
        assert view.variation.skill.instructions == ["lead"]
        assert view.resource.has_unpublished_changes
        assert (await bench.core.skills.get(bench.me, top)).variation.skill.supervision_subordinate_ids == []
        again = await supervise(bench, top, first)
        links = again.variation.skill
        assert links.supervision_subordinate_ids == [str(first)]
        assert links.supervision_subordinate_descriptions == {}
        with pytest.raises(Conflict):
            await bench.core.skills.supervise(bench.me, top, body, if_match=view.etag)
        none = await bench.core.skills.supervise(bench.me, top, {})
        assert not none.resource.has_unpublished_changes

    async def test_bad_links(self, bench: Bench) -> None:
        """Each error has its path, in `supervise`, `patch` and `create`; nothing is written."""
        await new_skill(bench)
        top, skills = await new_skill(bench), bench.core.skills
        for body, error, path, rule in BAD_LINKS:
            tries = [skills.supervise(bench.me, top, body)]
            if "model" not in body:
                tries += [skills.patch(bench.me, top, body), skills.create(bench.me, {"name": "new", **body})]
            for refused in tries:
                with pytest.raises(error) as found:
                    await refused
                assert paths(found) == {(path, rule)}
        assert len(await skills.page(bench.me)) == 2
        assert not (await skills.get(bench.me, top)).resource.has_unpublished_changes

    async def test_hidden_skills_do_not_exist(self, bench: Bench) -> None:
        """Another member's private skill, a deleted one and an unknown one give the same error."""
        hidden = await new_skill(bench, by=bench.other, access={"visibility": "private"})
        gone = await new_skill(bench)
        await bench.core.skills.delete(bench.me, gone)
        top, errors = await new_skill(bench), set()
        for below in (hidden, gone, 99):
            with pytest.raises(Invalid) as error:
                await supervise(bench, top, below)
            errors.add(str(error.value.info))
        assert len(errors) == 1

    async def test_hidden_links_can_be_written_back(self, bench: Bench) -> None:
        """An existing subordinate can stay, although this manager could not add it."""
        hidden = await new_skill(bench, by=bench.other, access={"visibility": "private"})
        top = await new_skill(bench, hidden, by=bench.other)
        plain = await new_skill(bench)
        view = await supervise(bench, top, hidden, plain)
        assert view.variation.skill.supervision_subordinate_ids == [str(hidden), str(plain)]
        assert (await bench.core.skills.deploy(bench.me, top)).resource.status == "active"

    async def test_supervision_requires_manage(self, bench: Bench) -> None:
        """Users are refused; for strangers the skill does not exist."""
        access = {"visibility": "private", "sharedWith": [{"email": "other@x.org"}]}
        top = await new_skill(bench, access=access)
        with pytest.raises(Forbidden):
            await supervise(bench, top, who=bench.other)
        with pytest.raises(NotFound):
            await supervise(bench, top, who=bench.person("eve"))


class TestCycles:
    """No skill supervises itself, directly or indirectly, by any use case."""

    async def test_a_cycle_is_refused(self, bench: Bench) -> None:
        """Over one, two and three links, deployed or pending."""
        bottom = await new_skill(bench)
        middle = await new_skill(bench, bottom)
        top = await new_skill(bench)
        await supervise(bench, top, middle)
        for start, below in ((bottom, bottom), (bottom, middle), (bottom, top), (middle, top)):
            for refused in (
                supervise(bench, start, below),
                bench.core.skills.patch(bench.me, start, {IDS: [str(below)]}),
            ):
                with pytest.raises(Invalid) as error:
                    await refused
                assert paths(error) == {(f"{IDS}[0]", "cycle")}
        assert (await supervise(bench, top, middle, bottom)).resource.has_unpublished_changes

    async def test_a_skill_cannot_be_made_with_itself_below(self, bench: Bench) -> None:
        """The id of a new skill can be guessed; its create refuses it all the same."""
        first = await new_skill(bench)
        with pytest.raises(Invalid) as error:
            await bench.core.skills.create(bench.me, {"name": "s", IDS: [str(first + 1)]})
        assert paths(error) == {(f"{IDS}[0]", "cycle")}

    async def test_neither_deploy_nor_rollback_brings_a_cycle_back(self, bench: Bench) -> None:
        """Links that were valid when written are checked again when they become active."""
        first, second, skills = await new_skill(bench), await new_skill(bench), bench.core.skills
        await supervise(bench, first, second)
        with_link = (await skills.deploy(bench.me, first)).resource.active_variation_id
        await supervise(bench, first)
        await skills.deploy(bench.me, first)
        await supervise(bench, second, first)
        await skills.deploy(bench.me, second)
        with pytest.raises(Invalid) as error:
            await skills.rollback(bench.me, first, variation_id=with_link)
        assert paths(error) == {(f"{IDS}[0]", "cycle")}
        await skills.delete(bench.me, first)
        await skills.patch(bench.me, second, instructions=["Anew."])
        with pytest.raises(Invalid) as error:
            await skills.deploy(bench.me, second)
        assert paths(error) == {(f"{IDS}[0]", "reference")}

    async def test_links_go_ten_deep(self, bench: Bench) -> None:
        """The tenth link is the last."""
        chain = [await new_skill(bench)]
        for _ in range(MAX_DEPTH):
            chain.append(await new_skill(bench, chain[-1]))
        with pytest.raises(Invalid) as error:
            await new_skill(bench, chain[-1])
        assert paths(error) == {(f"{IDS}[0]", "depth")}

    async def test_the_work_of_a_check_is_bounded(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """More skills below one than the limit are refused."""
        monkeypatch.setattr(supervision, "MAX_BELOW", 3)
        below = [await new_skill(bench) for _ in range(4)]
        top = await new_skill(bench, *below[:3])
        with pytest.raises(Invalid) as error:
            await supervise(bench, top, *below)
        assert paths(error) == {(IDS, "limit")}
