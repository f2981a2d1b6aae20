import { describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import type { Editing } from "../api/editing";
import type { NodeType, Structure, Workflow } from "../api/types";
import { addNode, blank, connect, copied, differences, freshId, handlesOf, moved, pasted, placeOf, removable, renamed, withData, without } from "./document";
import { Editor } from "./editor";
import { History } from "./history";

const TYPES = new Set(["start", "action", "condition", "agent", "humanApproval"]);
const GRAPH: Structure = {
  nodes: [
    { id: "start", type: "start", data: {}, position: { x: 0, y: 0 } },
    { id: "ask", type: "condition", data: { branches: [{ handle: "big", when: "input.n > 3" }] }, position: { x: 248, y: 0 } },
    { id: "pay", type: "action", data: { toolId: "core.transform", params: { value: "{{ nodes.ask.output + nodes[\"ask\"].output + nodes.asked.output }}" } }, position: { x: 496, y: 0 } },
  ],
  edges: [{ id: "a", source: "start", target: "ask" }, { id: "b", source: "ask", target: "pay", sourceHandle: "big" }],
};

describe("document", () => {
  it("adds a node after another one, at a free place", () => {
    const { structure, id } = addNode(GRAPH, { type: "action", base: "core.http", data: {}, after: { id: "ask", handle: "else" } });
    expect(id).toBe("core_http");
    expect(structure.nodes.at(-1)!.position).toEqual({ x: 496, y: 144 });
    expect(structure.edges.at(-1)).toEqual({ id: "ask_else_core_http", source: "ask", target: "core_http", sourceHandle: "else" });
    expect(GRAPH.nodes).toHaveLength(3);
  });

  it("connects each pair once, and nothing with a start or itself", () => {
    expect(connect(GRAPH, "ask", "big", "pay")).toBe(GRAPH);
    expect(connect(GRAPH, "pay", null, "start")).toBe(GRAPH);
    expect(connect(GRAPH, "pay", null, "pay")).toBe(GRAPH);
    expect(connect(GRAPH, "pay", "error", "ask").edges).toHaveLength(3);
  });

  it("removes nodes with their edges", () => {
    expect(without(GRAPH, ["ask"])).toEqual({ nodes: [GRAPH.nodes[0], GRAPH.nodes[2]], edges: [] });
    expect(without(GRAPH, [], ["a"]).edges.map((edge) => edge.id)).toEqual(["b"]);
  });

  it("removes no last start", () => {
    const two = { ...GRAPH, nodes: [...GRAPH.nodes, { id: "again", type: "start" }] };
    expect(removable(GRAPH, ["start", "ask", "pay"])).toEqual(["ask", "pay"]);
    expect([removable(two, ["start", "pay"]), removable(two, ["start", "again"])]).toEqual([["start", "pay"], ["again"]]);
  });

  it("renames a node in edges and expressions, and only there", () => {
    const next = renamed(GRAPH, "ask", "question");
    expect(next.edges.map((edge) => [edge.source, edge.target])).toEqual([["start", "question"], ["question", "pay"]]);
    expect(next.nodes[2]!.data!.params).toEqual({ value: "{{ nodes.question.output + nodes.question.output + nodes.asked.output }}" });
    expect(renamed(GRAPH, "ask", "pay")).toBe(GRAPH);
    expect(renamed(GRAPH, "ask", "is it big").nodes[2]!.data!.params).toEqual({
      value: '{{ nodes["is it big"].output + nodes["is it big"].output + nodes.asked.output }}',
    });
  });

  it("renames no field of an input, and a node again whatever its id is", () => {
    const holds = (value: string): Structure => ({ ...GRAPH, nodes: [...GRAPH.nodes.slice(0, 2), { id: "last", type: "action", data: { value } }] });
    const value = (structure: Structure) => structure.nodes[2]!.data!.value;
    expect(value(renamed(holds("input.nodes.ask + nodes.ask.output + mynodes.ask"), "ask", "b"))).toBe("input.nodes.ask + nodes.b.output + mynodes.ask");
    for (const id of ['a"b', "a'b", "a\\b", "ä\n"]) {
      const there = renamed(holds("nodes['ask'].output"), "ask", id);
      expect(value(there)).toBe(`nodes[${JSON.stringify(id)}].output`);
      expect(value(renamed(there, id, "ask"))).toBe("nodes.ask.output");
    }
    const quoted = holds("nodes['a \\'b\\' \"c\" \\\"d\\\"'].output");
    quoted.nodes[1] = { id: "a 'b' \"c\" \"d\"", type: "action" };
    expect(value(renamed(quoted, quoted.nodes[1].id, "b"))).toBe("nodes.b.output");
  });

  it("pastes nodes whose new ids are those of others that are pasted", () => {
    const two: Structure = { nodes: [{ id: "call", type: "action", data: {} }, { id: "call_2", type: "action", data: { value: "{{ nodes.call.output }}" } }], edges: [] };
    const { structure, ids } = pasted(without(two, ["call_2"]), copied(two, ["call", "call_2"]), TYPES);
    expect([ids, structure.nodes[2]!.data!.value]).toEqual([["call_2", "call_2_2"], "{{ nodes.call_2.output }}"]);
  });

  it("keeps the edges of a branch whose handle is renamed", () => {
    const next = withData(GRAPH, "ask", { branches: [{ handle: "large", when: "input.n > 3" }] });
    expect(next.edges[1]!.sourceHandle).toBe("large");
    expect(withData(GRAPH, "ask", { branches: [] }).edges[1]!.sourceHandle).toBe("big");
  });

  it("copies and pastes under new ids, with its references", () => {
    const text = copied(GRAPH, ["start", "ask", "pay"]);
    const found = pasted(GRAPH, text, TYPES);
    expect(found.ids).toEqual(["ask_2", "pay_2"]);
    expect(found.structure.nodes[4]!.data!.params).toEqual({ value: "{{ nodes.ask_2.output + nodes.ask_2.output + nodes.asked.output }}" });
    expect(found.structure.edges.at(-1)).toMatchObject({ source: "ask_2", target: "pay_2", sourceHandle: "big" });
    const places = [...found.structure.nodes].map((node) => `${node.position!.x},${node.position!.y}`);
    expect(new Set(places).size).toBe(places.length);
  });

  it("pastes nothing that the server would not store, and says what", () => {
    const left = (text: string) => {
      const found = pasted(GRAPH, text, TYPES);
      expect(found.ids).toEqual([]);
      expect(found.structure).toEqual(GRAPH);
      return found.left.map(({ what, why }) => `${what} ${why}`);
    };
    const one = (more: string) => left(`{"nodes":[{"id":"a","type":"action",${more}}]}`);
    for (const bad of ["", "x", '{"nodes":[}']) expect(left(bad)).toEqual([" notJson"]);
    for (const bad of ["[]", "1", "{}", '{"nodes":[]}', '{"nodes":{}}']) expect(left(bad)).toEqual([" noNodes"]);
    expect(left('{"nodes":[null,{"id":1,"type":"action"},{"id":"","type":"action"},{"id":"b","type":"wait"},{"id":"c"},{"id":"s","type":"start"}]}'))
      .toEqual(["1 form", "2 id", "3 id", "b type", "c type", "s start"]);
    expect(left(`{"nodes":[{"id":"${"x".repeat(256)}","type":"action"}]}`)).toEqual([`${"x".repeat(256)} id`]);
    const deep = `${"[".repeat(60)}${"]".repeat(60)}`;
    for (const bad of ["[]", "1", '{"x":"\\u0000"}', '{"x":"\\ud800"}', '{"x":9223372036854775808}', '{"x":1e999}', `{"x":${deep}}`]) expect(one(`"data":${bad}`)).toEqual(["a data"]);
  });

  it("pastes nodes of one id under different ids, and tells which edges it leaves", () => {
    const long = "x".repeat(255);
    const nodes = [{ id: "ask", type: "action" }, { id: "ask", type: "action", data: null, position: { x: "?" } }, { id: long, type: "action" }, { id: long, type: "action" }];
    const edges = [{ source: "ask", target: long, sourceHandle: null }, { source: "ask", target: "nowhere" }, null];
    const { structure, ids, left } = pasted(GRAPH, JSON.stringify({ nodes, edges }), TYPES);
    expect(new Set(ids).size).toBe(4);
    expect(Math.max(...ids.map((id) => id.length))).toBe(255);
    expect(structure.edges.at(-1)).toMatchObject({ source: ids[0], target: long });
    expect(left).toEqual([{ what: "2", why: "edges" }]);
  });

  it("finds the handles of a type and of branches", () => {
    const types = new Map<string, NodeType>([["condition", {
      type: "condition", title: "", description: "", dataSchema: {}, handles: [{ handle: "else", description: "" }], handlesFrom: "branches",
    }]]);
    expect(handlesOf(GRAPH.nodes[1]!, types)).toEqual(["big", "else"]);
    expect(handlesOf(GRAPH.nodes[2]!, types)).toEqual([null]);
  });

  it("finds the place of an issue", () => {
    const at = (path: string) => placeOf({ path, message: "", rule: "" }, GRAPH);
    expect(at("workflowStructure.nodes[2].data.params.a[1].b")).toEqual({ node: "pay", pointer: "/params/a/1/b" });
    expect(at("workflowStructure.nodes[2].type")).toEqual({ node: "pay", pointer: "/type" });
    expect(at("workflowStructure.edges[1].sourceHandle")).toEqual({ node: "ask", edge: "b", pointer: "/sourceHandle" });
    expect(at("trigger.schedule")).toEqual({ pointer: "" });
    expect(at("workflowStructure.nodes[9]")).toEqual({ pointer: "" });
  });

  it("differs by content, not by place", () => {
    expect(differences(GRAPH, moved(GRAPH, new Map([["ask", { x: 1.4, y: 2.6 }]])))).toEqual({ added: [], removed: [], changed: [] });
    expect(differences(GRAPH, without(GRAPH, ["pay"])).removed).toEqual(["pay", "ask (big) → pay"]);
  });

  it("makes ids of words", () => {
    expect(freshId(["mail", "mail_2"], "mail")).toBe("mail_3");
    expect(freshId([], "Ünïcode 7!")).toBe("n_code_7");
    expect(freshId([], "!!")).toBe("node");
  });
});

describe("History", () => {
  it("undoes and redoes, and merges quick changes of one key", () => {
    let now = 0;
    const history = new History(blank(), () => now);
    const states = [1, 2, 3, 4].map((x) => moved(blank(), new Map([["start", { x, y: 0 }]])));
    history.change(states[0]!, "a");
    now += 500;
    history.change(states[1]!, "a");
    now += 5_000;
    history.change(states[2]!, "a");
    expect(history.undo() && history.current).toBe(states[1]);
    history.undo();
    expect([history.canUndo, history.canRedo]).toEqual([false, true]);
    history.redo();
    expect(history.current).toBe(states[1]);
    history.change(states[3]!);
    expect([history.redo(), history.current]).toEqual([false, states[3]]);
  });
});

/** A server with one draft; `next` is what the next write raises. */
function server(structure: Structure = GRAPH) {
  let version = 1;
  const held = { structure, status: "draft", writes: 0, deploys: 0, next: null as unknown, kept: null as string | null, wait: null as Promise<void> | null, lost: false, names: [] as unknown[] };
  const workflow = (): Workflow => ({ id: 7, name: "F", description: null, status: held.status, canManage: true, variation: { workflowStructure: held.structure } });
  const calls = {
    read: async () => ({ workflow: workflow(), etag: `"${version}"` }),
    newer: async (_: number, etag: string) => (etag === `"${version}"` ? null : { workflow: workflow(), etag: `"${version}"` }),
    save: async (_: number, next: Structure, etag: string | null) => {
      await held.wait;
      if (held.next) {
        const error = held.next;
        held.next = null;
        throw error;
      }
      if (etag !== `"${version}"`) throw new ApiError(409, "stale", { reason: "stale" });
      held.structure = next;
      held.writes++;
      version++;
      if (held.lost) {
        held.lost = false;
        throw new ApiError(0, "the server cannot be reached");
      }
      return { workflow: workflow(), etag: `"${version}"` };
    },
    update: async (_: number, { name }: { name: string }, etag: string | null) => {
      await held.wait;
      if (etag !== `"${version}"`) throw new ApiError(409, "stale", { reason: "stale" });
      held.names.push(name);
      version++;
      return { workflow: workflow(), etag: `"${version}"` };
    },
    issues: async () => [{ path: "workflowStructure.nodes[1].data", message: "no", rule: "x" }],
    deploy: async () => {
      held.deploys++;
      return workflow();
    },
    rollBack: async () => workflow(),
    toggle: async () => workflow(),
  };
  const keeper = { open: async () => undefined, get: () => held.kept, set: (text: string | null) => void (held.kept = text) };
  const other = (next: Structure) => {
    held.structure = next;
    version++;
  };
  return { held, other, editor: () => new Editor(calls as unknown as Editing, 7, keeper) };
}

const more = (structure: Structure) => addNode(structure, { type: "action", base: "x", data: {} }).structure;

describe("Editor", () => {
  it("writes nothing before a change, then the latest one, and shows the issues", async () => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    await one.save();
    expect([held.writes, one.current().issues[0]!.at.node]).toEqual([0, "ask"]);
    one.change(more(GRAPH));
    one.change(more(one.current().structure));
    expect(one.current().saving).toBe("dirty");
    expect(JSON.parse(held.kept!).structure.nodes).toHaveLength(5);
    await one.save();
    expect([held.writes, held.structure.nodes.length, one.current().saving, held.kept]).toEqual([1, 5, "saved", null]);
    one.undo();
    await one.save();
    expect(held.structure.nodes).toHaveLength(4);
  });

  it("saves what was changed while it saved", async () => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    let go = () => {};
    held.wait = new Promise((resolve) => (go = resolve));
    one.change(more(GRAPH));
    const saving = one.save();
    one.change(more(one.current().structure));
    go();
    await saving;
    expect(one.current().saving).toBe("dirty");
    await one.save();
    expect([held.writes, held.structure.nodes.length, held.kept]).toEqual([2, 5, null]);
    one.stop();
  });

  it("saves on top of a change of other fields, which is no conflict", async () => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    one.change(more(GRAPH));
    other(structuredClone(GRAPH));
    await one.save();
    expect([one.current().saving, held.structure.nodes.length, held.writes, held.kept]).toEqual(["saved", 4, 1, null]);
    one.stop();
  });

  it.each([0, 1])("knows a change of its own again whose response was lost (%s more changes)", async (changes) => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    held.lost = true;
    one.change(more(GRAPH));
    await one.save();
    expect([one.current().saving, held.writes]).toEqual(["failed", 1]);
    held.next = new ApiError(0, "the server cannot be reached");
    if (changes) one.change(more(one.current().structure));
    await one.save();
    await one.save();
    expect([one.current().saving, held.structure.nodes.length, held.writes, held.kept]).toEqual(["saved", 4 + changes, 1 + changes, null]);
    one.stop();
  });

  it("writes neither the graph nor other fields while the others are written", async () => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    let go = () => {};
    held.wait = new Promise((resolve) => (go = resolve));
    const both = [one.update({ name: "A" }), one.update({ name: "B" })];
    one.change(more(GRAPH));
    const saving = one.save();
    go();
    await Promise.all([...both, saving]);
    expect([one.current().saving, held.names, held.structure.nodes.length]).toEqual(["saved", ["A", "B"], 4]);
    one.stop();
  });

  it("saves what was changed while it saved when the page is left", async () => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    let go = () => {};
    held.wait = new Promise((resolve) => (go = resolve));
    one.change(more(GRAPH));
    const saving = one.save();
    one.change(more(one.current().structure));
    one.stop();
    go();
    await saving;
    await vi.waitFor(() => expect([held.structure.nodes.length, held.kept]).toEqual([5, null]));
  });

  it.each([true, false])("offers both versions after a change of somebody else (mine: %s)", async (mine) => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    one.change(more(GRAPH));
    const theirs = without(GRAPH, ["pay"]);
    other(theirs);
    await one.save();
    expect(one.current().saving).toBe("conflict");
    expect(differences(one.current().conflict!.structure, one.current().structure)).toEqual({ added: ["pay", "x", "ask (big) → pay"], removed: [], changed: [] });
    expect(held.structure).toBe(theirs);
    one.resolve(mine);
    await one.save();
    expect(held.structure.nodes.map((node) => node.id)).toEqual(mine ? ["start", "ask", "pay", "x"] : ["start", "ask"]);
    expect([one.current().saving, held.kept]).toEqual(["saved", null]);
    if (!mine) {
      one.undo();
      expect(one.current().structure.nodes).toHaveLength(4);
    }
    one.stop();
  });

  it("says that somebody else has changed the graph, and shows it on demand", async () => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    await one.look();
    expect(one.current().outdated).toBe(false);
    other(more(GRAPH));
    await one.look();
    expect([one.current().outdated, one.current().structure.nodes.length, one.current().saving]).toEqual([true, 3, "saved"]);
    await one.reread();
    expect([one.current().outdated, one.current().structure.nodes.length]).toEqual([false, 4]);
    one.undo();
    await one.save();
    expect([held.structure.nodes.length, one.current().saving]).toEqual([3, "saved"]);
    other(more(GRAPH));
    one.change(without(GRAPH, ["pay"]));
    await one.look();
    expect([one.current().outdated, one.current().structure.nodes.length]).toEqual([true, 2]);
    await one.save();
    expect([one.current().outdated, one.current().saving, held.structure.nodes.length]).toEqual([false, "conflict", 4]);
    one.stop();
  });

  it("takes over what is no change of the graph, so that the next save is no conflict", async () => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    held.status = "active";
    other(structuredClone(GRAPH));
    await one.look();
    expect([one.current().outdated, one.current().workflow!.status]).toEqual([false, "active"]);
    one.change(more(GRAPH));
    await one.save();
    expect([one.current().saving, held.structure.nodes.length]).toEqual(["saved", 4]);
    one.change(more(one.current().structure));
    held.status = "deleted";
    other(held.structure);
    await one.look();
    expect([one.current().saving, one.isUnsaved, one.current().structure.nodes.length]).toEqual(["refused", true, 5]);
    one.stop();
  });

  const acts: [string, (one: Editor) => Promise<void>][] = [["a rollback", (one) => one.rollBack("v")], ["a switch", (one) => one.toggle()]];
  it.each(acts)("shows after %s what somebody else saved before, and does not replace it", async (_, act) => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    other(more(GRAPH));
    await act(one);
    expect([one.current().structure.nodes.length, one.current().saving]).toEqual([4, "saved"]);
    one.change(without(one.current().structure, ["pay"]));
    await one.save();
    expect(held.structure.nodes.map((node) => node.id)).toEqual(["start", "ask", "x"]);
    held.next = new ApiError(503, "busy");
    one.change(without(one.current().structure, ["ask"]));
    await one.save();
    other(more(held.structure));
    await act(one);
    expect([one.current().saving, one.current().conflict!.structure.nodes.length, held.structure.nodes.length]).toEqual(["conflict", 4, 4]);
    one.stop();
  });

  it.each([[new ApiError(503, "busy"), "failed"], [new ApiError(422, "no"), "refused"], [new ApiError(409, "stale", { reason: "stale" }), "conflict"]])(
    "deploys no older draft than the one that is shown (%s)", async (error, saving) => {
      const { held, other, editor } = server();
      const one = editor();
      await one.start();
      if (saving === "conflict") other(without(GRAPH, ["pay"]));
      held.next = error;
      one.change(more(GRAPH));
      await expect(one.deploy()).rejects.toThrow("not saved");
      expect([one.current().saving, held.deploys]).toEqual([saving, 0]);
      if (saving !== "conflict") await one.deploy();
      expect([held.deploys, held.writes]).toEqual(saving === "conflict" ? [0, 0] : [1, 1]);
      one.stop();
    });

  it("says that the workflow was deleted, and keeps what was not saved", async () => {
    const { held, other, editor } = server();
    const one = editor();
    await one.start();
    one.change(more(GRAPH));
    held.status = "deleted";
    other(GRAPH);
    await one.save();
    const { saving, conflict, workflow, structure } = one.current();
    expect([saving, conflict, workflow!.status, structure.nodes.length, one.isUnsaved]).toEqual(["refused", null, "deleted", 4, true]);
    await expect(one.deploy()).rejects.toThrow("not saved");
    one.stop();
    const next = editor();
    await next.start();
    expect([next.current().saving, next.current().structure.nodes.length, held.kept !== null]).toEqual(["refused", 4, true]);
  });

  it("keeps unsaved changes for the next page, and sends them again", async () => {
    vi.useFakeTimers();
    const { held, editor } = server();
    const one = editor();
    await one.start();
    held.next = new ApiError(0, "the server cannot be reached");
    one.change(more(GRAPH));
    await one.save();
    expect([one.current().saving, held.kept !== null]).toEqual(["failed", true]);
    await vi.advanceTimersByTimeAsync(3_000);
    expect([one.current().saving, held.kept]).toEqual(["saved", null]);
    held.next = new ApiError(0, "the server cannot be reached");
    one.change(more(one.current().structure));
    one.stop();
    await vi.advanceTimersByTimeAsync(10);
    expect(held.kept).not.toBeNull();
    const next = editor();
    await next.start();
    expect([next.current().restored, next.current().structure.nodes.length, next.current().saving]).toEqual([true, 5, "dirty"]);
    next.change(more(next.current().structure));
    next.discard();
    expect([next.current().structure.nodes.length, next.current().saving, next.current().restored, held.kept]).toEqual([4, "saved", false, null]);
    next.undo();
    expect([next.current().structure.nodes.length, next.current().saving]).toEqual([6, "dirty"]);
    next.undo();
    next.undo();
    await next.save();
    expect([next.current().saving, held.writes, held.kept]).toEqual(["saved", 1, null]);
    vi.useRealTimers();
    next.stop();
  });

  it("shows what the server refuses at its node", async () => {
    const { held, editor } = server();
    const one = editor();
    await one.start();
    held.next = new ApiError(422, "no", { errors: [{ path: "workflowStructure.nodes[2].data.params", message: "bad", rule: "type" }] });
    one.change(more(GRAPH));
    await one.save();
    expect([one.current().saving, one.current().issues[0]!.at]).toEqual(["refused", { node: "pay", pointer: "/params" }]);
    expect(held.kept).not.toBeNull();
  });
});
