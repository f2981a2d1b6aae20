import type { GraphNode, Structure } from "../api/types";
import { freePlace, freshId, moved, type Point } from "./document";
import { asNumber, isObject } from "../kit/json";

/**
 * Notes and groups of the canvas. No run reads them: `data` keeps what its schema does not know. A node has the name
 * of its group in `data.group`; the notes are in `data.notes` of the start node.
 */

export const NOTE = "note";
export const NOTE_SIZE = { width: 220, height: 120 };
export const LONGEST_NOTE = 2_000;
const MOST_NOTES = 200;
const FRAME = { side: 20, top: 38, bottom: 20 };

export interface Note {
  id: string;
  text: string;
  position: Point;
}

/** The ids of notes and groups on the canvas. JSON texts have no NUL, so that no node has such an id. */
export const noteKey = (id: string) => `\u0000note ${id}`;
export const groupKey = (name: string) => `\u0000group ${name}`;

export const noteOf = (key: string | undefined): string | null => (key?.startsWith(noteKey("")) ? key.slice(noteKey("").length) : null);
export const groupOf = (key: string | undefined): string | null => (key?.startsWith(groupKey("")) ? key.slice(groupKey("").length) : null);

const isPoint = (value: unknown): value is Point => isObject(value) && Number.isFinite(asNumber(value.x)) && Number.isFinite(asNumber(value.y));

/** The notes of the structure; what is not a note is left out. */
export function notesOf(structure: Structure): Note[] {
  const held = structure.nodes.find((node) => node.type === "start")?.data?.notes;
  const found = new Map<string, Note>();
  for (const one of (Array.isArray(held) ? held : []).slice(0, MOST_NOTES)) {
    if (isObject(one) && typeof one.id === "string" && typeof one.text === "string" && isPoint(one.position)) {
      found.set(one.id, { id: one.id, text: one.text, position: { x: Number(one.position.x), y: Number(one.position.y) } });
    }
  }
  return [...found.values()];
}

/** The structure with these notes; unchanged without a start node. */
export function withNotes(structure: Structure, notes: Note[]): Structure {
  const start = structure.nodes.find((node) => node.type === "start");
  if (!start) return structure;
  const { notes: _, ...rest } = start.data ?? {};
  const data = notes.length ? { ...rest, notes: notes.map((note) => ({ ...note, position: { ...note.position } })) } : rest;
  return { ...structure, nodes: structure.nodes.map((node) => (node === start ? { ...node, data } : node)) };
}

/** The structure with a note more, and its id. */
export function addNote(structure: Structure, text: string, wanted: Point): { structure: Structure; id: string } {
  const notes = notesOf(structure);
  const id = freshId(notes.map((note) => note.id), NOTE);
  return { structure: withNotes(structure, [...notes, { id, text, position: freePlace(structure, wanted) }]), id };
}

export function withText(structure: Structure, id: string, text: string): Structure {
  return withNotes(structure, notesOf(structure).map((note) => (note.id === id ? { ...note, text } : note)));
}

const nameIn = (node: GraphNode): string => (typeof node.data?.group === "string" ? node.data.group.trim() : "");

/** The ids of the nodes in each group, by its name. */
export function groupsOf(structure: Structure): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const node of structure.nodes) {
    const name = nameIn(node);
    if (name) found.set(name, [...(found.get(name) ?? []), node.id]);
  }
  return found;
}

/** The structure with these nodes in a group; an empty name: in none. */
export function grouped(structure: Structure, chosen: Iterable<string>, name: string): Structure {
  const wanted = new Set(chosen);
  const put = (node: GraphNode) => {
    const { group: _, ...rest } = node.data ?? {};
    return { ...node, data: name.trim() ? { ...rest, group: name.trim() } : rest };
  };
  return { ...structure, nodes: structure.nodes.map((node) => (wanted.has(node.id) ? put(node) : node)) };
}

export interface Box extends Point {
  width: number;
  height: number;
}

/** The frame around boxes. */
export function frameOf(boxes: Box[]): Box {
  const x = Math.min(...boxes.map((box) => box.x)) - FRAME.side;
  const y = Math.min(...boxes.map((box) => box.y)) - FRAME.top;
  const right = Math.max(...boxes.map((box) => box.x + box.width)) + FRAME.side;
  const bottom = Math.max(...boxes.map((box) => box.y + box.height)) + FRAME.bottom;
  return { x, y, width: right - x, height: bottom - y };
}

/** The ids of the canvas with the members in the place of groups. */
export function members(structure: Structure, keys: string[]): string[] {
  const groups = groupsOf(structure);
  return [...new Set(keys.flatMap((key) => groups.get(groupOf(key) ?? "") ?? [key]))];
}

/** The structure with nodes and notes at new places. */
export function movedAll(structure: Structure, places: Map<string, Point>): Structure {
  const notes = notesOf(structure);
  const next = moved(structure, places);
  const isMoved = notes.some((note) => places.has(noteKey(note.id)));
  const at = (note: Note) => places.get(noteKey(note.id)) ?? note.position;
  return isMoved ? withNotes(next, notes.map((note) => ({ ...note, position: { x: Math.round(at(note).x), y: Math.round(at(note).y) } }))) : next;
}

/** The structure without these notes, and without these groups: their nodes stay. */
export function withoutMarks(structure: Structure, keys: string[]): Structure {
  const notes = new Set(keys.map(noteOf).filter((id) => id !== null));
  const groups = groupsOf(structure);
  const left = notes.size ? withNotes(structure, notesOf(structure).filter((note) => !notes.has(note.id))) : structure;
  return keys.reduce((before, key) => grouped(before, groups.get(groupOf(key) ?? "") ?? [], ""), left);
}
