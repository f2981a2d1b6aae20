import { describe, expect, it } from "vitest";
import type { Structure } from "../api/types";
import {
  addNote, frameOf, grouped, groupKey, groupOf, groupsOf, members, movedAll, noteKey, noteOf, notesOf, withNotes, withoutMarks, withText,
} from "./annotations";
import { copied, pasted, renamed, without } from "./document";

const GRAPH: Structure = {
  nodes: [
    { id: "start", type: "start", data: { inputSchema: { type: "object" } }, position: { x: 0, y: 0 } },
    { id: "ask", type: "humanApproval", data: { message: "?" }, position: { x: 248, y: 0 } },
    { id: "pay", type: "action", data: { toolId: "core.transform" }, position: { x: 496, y: 0 } },
  ],
  edges: [],
};

describe("notes", () => {
  it("are in the data of the start node, which keeps its own", () => {
    const { structure, id } = addNote(GRAPH, "Why", { x: 10, y: 400 });
    expect(notesOf(structure)).toEqual([{ id, text: "Why", position: { x: 10, y: 400 } }]);
    expect(structure.nodes[0]!.data!.inputSchema).toEqual({ type: "object" });
    expect(notesOf(withText(structure, id, "How"))[0]!.text).toBe("How");
    expect(withoutMarks(structure, [noteKey(id)])).toEqual(GRAPH);
    expect(withNotes({ nodes: [], edges: [] }, [])).toEqual({ nodes: [], edges: [] });
  });

  it("have ids of their own, and what is not a note is left out", () => {
    const first = addNote(GRAPH, "1", { x: 0, y: 400 });
    const second = addNote(first.structure, "2", { x: 0, y: 600 });
    expect(new Set([first.id, second.id]).size).toBe(2);
    const hostile = { ...GRAPH.nodes[0]!, data: { notes: [1, { id: "a" }, { id: "b", text: "b", position: { x: "1", y: 2 } }] as never } };
    expect(notesOf({ nodes: [hostile], edges: [] })).toEqual([]);
  });

  it("move with nodes", () => {
    const { structure, id } = addNote(GRAPH, "", { x: 10, y: 400 });
    const next = movedAll(structure, new Map([[noteKey(id), { x: 1.4, y: 2.6 }], ["pay", { x: 5, y: 6 }]]));
    expect(notesOf(next)[0]!.position).toEqual({ x: 1, y: 3 });
    expect(next.nodes[2]!.position).toEqual({ x: 5, y: 6 });
    expect(noteOf(noteKey(id))).toBe(id);
    expect(noteOf("pay")).toBeNull();
  });
});

describe("groups", () => {
  const made = grouped(GRAPH, ["ask", "pay"], " Money ");

  it("are names in the data of nodes", () => {
    expect(groupsOf(made)).toEqual(new Map([["Money", ["ask", "pay"]]]));
    expect(groupsOf(grouped(made, ["ask"], ""))).toEqual(new Map([["Money", ["pay"]]]));
    expect(withoutMarks(made, [groupKey("Money")])).toEqual(GRAPH);
    expect(members(made, [groupKey("Money"), "start", "ask"])).toEqual(["ask", "pay", "start"]);
    expect(groupOf(groupKey("Money"))).toBe("Money");
    expect(groupOf(undefined)).toBeNull();
  });

  it("survive renames, deletions and the clipboard", () => {
    expect(groupsOf(renamed(made, "ask", "question")).get("Money")).toEqual(["question", "pay"]);
    expect(groupsOf(without(made, ["ask"])).get("Money")).toEqual(["pay"]);
    expect(groupsOf(pasted(made, copied(made, ["pay"]), new Set(["action"])).structure).get("Money")).toEqual(["ask", "pay", "pay_2"]);
  });

  it("have a frame around their nodes", () => {
    expect(frameOf([{ x: 0, y: 0, width: 10, height: 10 }, { x: 90, y: 40, width: 10, height: 20 }])).toEqual({ x: -20, y: -38, width: 140, height: 118 });
  });
});
