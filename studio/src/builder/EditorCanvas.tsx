import {
  applyNodeChanges, type Connection, Handle, MarkerType, type Node, type NodeChange, type NodeHandle,
  type NodeProps, Position, ReactFlow, ReactFlowProvider, useReactFlow, type Viewport,
} from "@xyflow/react";
import { type DragEvent, type KeyboardEvent, memo, type Ref, type RefObject, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { GraphNode, NodeType, Structure } from "../api/types";
import type { Box as Obstacle, Way } from "../canvas/detour";
import { beginningOf, type Fit, firstView, InSight, useEffectsAtOnce, useJump, useScrolls } from "../canvas/InSight";
import { EDGE_TYPES, type Line, useDetours } from "../canvas/Line";
import { usePaper } from "../canvas/paper";
import { positions } from "../canvas/place";
import { focusOfNow } from "../elements/focus";
import { useLanguage } from "../i18n/context";
import { outcomeName } from "../i18n/names";
import { Icon } from "../kit/icons";
import { brief } from "../kit/safe";
import { type Box, frameOf, groupKey, groupOf, groupsOf, NOTE_SIZE, noteKey, notesOf } from "./annotations";
import { handlesOf, type Point, titleOf } from "./document";
import { type Count, counted } from "./Problems";
import { Overview } from "./Overview";
import { type Marks, toneOfOutcome } from "./playing";
import { GroupNode, NoteNode, type ShownGroup, type ShownNote } from "./Marks";

const WIDTH = 200;
const HEAD = 54;
const ROW = 24;
const CULL_FROM = 300;
const FIT: Fit = { padding: 0.12, maxZoom: 1, minZoom: 0.25 };
const MARKER = { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--muted)" };
/** One list for all renderings: with a new one, the canvas would begin to listen again and could miss a key. */
const DELETE_KEYS = ["Backspace", "Delete"];
/** What a drag from the palette carries. */
export const DRAGGED = "application/x-studio-node";

interface Shown extends Record<string, unknown> {
  node: GraphNode;
  handles: (string | null)[];
  problems: Count;
  canEdit: boolean;
  /** How the node ended in a simulated run, `never` or `unreached`; empty without one. `!` leads that of this step. */
  mark: string;
}
type Step = Node<Shown, "step">;
type Placed = Step | ShownNote | ShownGroup;

const NONE: Count = { errors: 0, warnings: 0 };
const hasAny = ({ errors, warnings }: Count) => errors + warnings > 0;
const isSame = (one: Count, other: Count) => one.errors === other.errors && one.warnings === other.warnings;

/** Handles with a name have a row each; the plain one is at the middle of the head, `error` below the node. */
const rowsOf = (handles: (string | null)[]) => handles.filter((one): one is string => one !== null && one !== "error");
const heightOf = (handles: (string | null)[]) => HEAD + rowsOf(handles).length * ROW;

const EditorNode = memo(function EditorNode({ data }: NodeProps<Step>) {
  const language = useLanguage();
  const { t, has } = language;
  const { node, handles, problems, canEdit, mark } = data;
  const outcome = mark.replace(/^!/, "");
  const tone = !outcome ? "" : outcome === "never" || outcome === "unreached" ? "off" : toneOfOutcome(outcome);
  const title = titleOf(node);
  const kind = `type.${node.type}`;
  const under = typeof node.data?.toolId === "string" ? node.data.toolId : has(kind) ? t(kind) : node.type;
  return (
    <div className={`gnode editable ${outcome ? tone : problems.errors ? "bad" : problems.warnings ? "wait" : ""}${mark.startsWith("!") ? " current" : ""}`} part="node" data-outcome={outcome || undefined}>
      {node.type !== "start" && <Handle type="target" position={Position.Left} isConnectable={canEdit} style={{ insetBlockStart: HEAD / 2 }} />}
      <div className="ghead">
        <span className="glyph"><Icon name={node.type} /></span>
        <span style={{ minWidth: 0 }}>
          <span className="name clip" style={{ display: "block" }}>{brief(title, 80)}</span>
          <span className="under clip" style={{ display: "block" }}>{brief(under, 80)}</span>
        </span>
        {outcome && tone !== "off" && <span className="mark clip">{has(`outcome.${outcome}`) ? t(`outcome.${outcome}`) : brief(outcome, 20)}</span>}
        {outcome === "never" && <span className="mark"><Icon name="skipped" /><span className="sr">{t("simulate.never")}</span></span>}
        {!outcome && hasAny(problems) && <span className="mark"><Icon name={problems.errors ? "error" : "waiting"} /><span className="sr">{counted(problems, t)}</span></span>}
      </div>
      {handles.includes(null) && <Handle type="source" position={Position.Right} isConnectable={canEdit} style={{ insetBlockStart: HEAD / 2 }} />}
      {rowsOf(handles).map((handle, index) => (
        <div className="ghandle" key={handle}>
          <span className="clip">{brief(outcomeName(language, handle, node.type), 40)}</span>
          <Handle id={handle} type="source" position={Position.Right} isConnectable={canEdit} style={{ insetBlockStart: HEAD + index * ROW + ROW / 2 - 1 }} />
        </div>
      ))}
      {handles.includes("error") && <Handle id="error" className="onerror" type="source" position={Position.Bottom} isConnectable={canEdit} />}
    </div>
  );
});

const NODE_TYPES = { step: EditorNode, note: NoteNode, group: GroupNode };

export interface CanvasHandle {
  fit: () => void;
  /** Gives the node the focus. */
  show: (id: string) => void;
  /** Shows the node at a scale at which it can be read. */
  jump: (id: string) => void;
  /** The point of the graph in the middle of what is shown. */
  middle: () => Point;
  tidy: () => Promise<Map<string, Point>>;
  /** Where the nodes are shown. */
  places: () => Map<string, Point>;
}

export interface CanvasProps {
  structure: Structure;
  types: Map<string, NodeType>;
  problems: Map<string, Count>;
  /** What is shown of a simulation. */
  marks: Marks | null;
  selected: string[];
  canEdit: boolean;
  label: string;
  ref: Ref<CanvasHandle>;
  onSelect: (ids: string[]) => void;
  onMove: (places: Map<string, Point>) => void;
  onConnect: (source: string, handle: string | null, target: string) => void;
  onDelete: (nodes: string[], edges: string[]) => void;
  onDrop: (text: string, at: Point) => void;
}

export function EditorCanvas(props: CanvasProps) {
  const { structure, types, canEdit, marks } = props;
  const box = useRef<HTMLDivElement>(null);
  const made = useMadePlaces(structure, types);
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);
  useLayoutEffect(() => setSize({ width: box.current!.clientWidth, height: box.current!.clientHeight }), []);
  const wanted = useWanted(props, made);
  const around = useDetours(() => waysOf(structure, wanted), [structure.edges, wanted]);
  const lines = useMemo<Line[]>(
    () => structure.edges.map((edge) => ({
      id: edge.id, source: edge.source, target: edge.target, type: "default", focusable: false, deletable: canEdit, ariaLabel: `${edge.source} → ${edge.target}`,
      ...(edge.sourceHandle ? { sourceHandle: edge.sourceHandle } : {}), className: [edge.sourceHandle === "error" && "onerror", marks?.current && (marks.taken.has(edge.id) ? "taken" : "untaken")].filter(Boolean).join(" "),
      markerEnd: MARKER, ...(around.has(edge.id) ? { data: { detour: around.get(edge.id)! } } : {}),
    })),
    [structure.edges, canEdit, marks, around],
  );
  const begin = useMemo(() => size && beginningOf(wanted, startOf(structure), size, FIT), [size, made]);
  return (
    <div className="graph editing" role="group" aria-label={props.label} aria-busy={!made || undefined} ref={box}>
      {made && size && begin && (
        <ReactFlowProvider initialNodes={wanted} initialEdges={lines} initialWidth={size.width} initialHeight={size.height} fitView
          initialFitViewOptions={{ ...FIT, nodes: begin }} initialMinZoom={FIT.minZoom} initialMaxZoom={FIT.maxZoom}>
          <Canvas {...props} wanted={wanted} lines={lines} box={box} first={firstView(begin, size, FIT)} />
        </ReactFlowProvider>
      )}
    </div>
  );
}

const startOf = (structure: Structure) => structure.nodes.find((node) => node.type === "start")?.id;

/** Where the handles are: the canvas renders a node that lacks them once to measure it, in sight or not. */
function handlesAt(node: GraphNode, handles: (string | null)[]): NodeHandle[] {
  const at = (type: "source" | "target", position: Position, x: number, y: number, id: string | null): NodeHandle => ({ type, position, x, y, width: 1, height: 1, id });
  const found = node.type === "start" ? [] : [at("target", Position.Left, 0, HEAD / 2, null)];
  if (handles.includes(null)) found.push(at("source", Position.Right, WIDTH - 1, HEAD / 2, null));
  rowsOf(handles).forEach((handle, index) => found.push(at("source", Position.Right, WIDTH - 1, HEAD + index * ROW + ROW / 2 - 1, handle)));
  if (handles.includes("error")) found.push(at("source", Position.Bottom, WIDTH / 2, heightOf(handles) - 1, "error"));
  return found;
}

/** The nodes as boxes, and the edges between their handles. */
function waysOf(structure: Structure, wanted: Placed[]): { boxes: Obstacle[]; ways: Way[] } {
  const steps = new Map(wanted.filter((one) => one.type === "step").map((one) => [one.id, one as Step]));
  const place = (node: Step, type: "source" | "target", handle: string | null) => {
    const at = node.handles?.find((one) => one.type === type && (one.id ?? null) === handle);
    return at && { x: node.position.x + at.x, y: node.position.y + at.y, isDown: at.position === Position.Bottom };
  };
  const ways = structure.edges.flatMap(({ id, source, target, sourceHandle }): Way[] => {
    const [from, to] = [steps.get(source), steps.get(target)];
    const [start, end] = [from && place(from, "source", sourceHandle ?? null), to && place(to, "target", null)];
    return start && end ? [{ id, source, target, start, end, isDown: start.isDown }] : [];
  });
  return { boxes: [...steps.values()].map((one) => ({ id: one.id, ...boxOf(one) })), ways };
}

/** The nodes as the structure has them. One that did not change stays the same object, and is not rendered again. */
function useWanted({ structure, types, problems, marks, selected, canEdit }: CanvasProps, made: Map<string, Point> | null): Placed[] {
  const { t } = useLanguage();
  const built = useRef(new Map<string, Step>());
  return useMemo(() => {
    if (made === null) return [];
    const chosen = new Set(selected);
    const next = structure.nodes.map((node): Step => {
      const count = problems.get(node.id) ?? NONE;
      const position = node.position ?? made.get(node.id) ?? { x: 0, y: 0 };
      const old = built.current.get(node.id);
      const isSelected = chosen.has(node.id);
      const mark = markOf(marks, node.id);
      if (old && old.data.node === node && isSame(old.data.problems, count) && old.data.canEdit === canEdit && old.data.mark === mark && old.selected === isSelected
        && old.position.x === position.x && old.position.y === position.y) return old;
      const handles = handlesOf(node, types);
      const size = { width: WIDTH, height: heightOf(handles) };
      return {
        id: node.id, type: "step", data: { node, handles, problems: count, canEdit, mark }, position, ...size, measured: size, handles: handlesAt(node, handles), selected: isSelected,
        ariaLabel: brief(`${titleOf(node)}, ${node.type}${hasAny(count) ? `, ${counted(count, t)}` : ""}`, 160), ariaRole: "button",
      };
    });
    built.current = new Map(next.map((node) => [node.id, node]));
    const notes = notesOf(structure).map((note): ShownNote => ({
      id: noteKey(note.id), type: "note", data: { text: note.text }, position: note.position, ...NOTE_SIZE, measured: NOTE_SIZE, selected: chosen.has(noteKey(note.id)),
      connectable: false, ariaLabel: brief(`${t("builder.note")}: ${note.text}`, 160), ariaRole: "button",
    }));
    return [...framesOf(structure, built.current, chosen, t("builder.group")), ...next, ...notes];
  }, [structure, types, problems, marks, selected, canEdit, made, t]);
}

function markOf(marks: Marks | null, id: string): string {
  if (!marks) return "";
  if (marks.never.has(id)) return "never";
  const outcome = marks.outcomes.get(id);
  if (outcome === undefined) return marks.current === null ? "" : "unreached";
  return `${marks.current === id ? "!" : ""}${outcome}`;
}

/** The frames of the groups, behind their nodes. Only the name of a frame takes the pointer. */
function framesOf(structure: Structure, nodes: Map<string, Step>, chosen: Set<string>, kind: string): ShownGroup[] {
  return [...groupsOf(structure)].map(([name, ids]): ShownGroup => {
    const { x, y, ...size } = frameOf(ids.map((id) => boxOf(nodes.get(id)!)));
    return {
      id: groupKey(name), type: "group", data: { name }, position: { x, y }, ...size, measured: size, selected: chosen.has(groupKey(name)), zIndex: -1,
      style: { pointerEvents: "none" }, connectable: false, ariaLabel: brief(`${kind}: ${name}`, 120), ariaRole: "button",
    };
  });
}

const boxOf = ({ position, width = WIDTH, height = HEAD }: Step): Box => ({ ...position, width, height });

/** The changes with those of the members of a group that moves: they stay where they are in it. */
function withMembers(changes: NodeChange<Placed>[], nodes: Placed[], structure: Structure): NodeChange<Placed>[] {
  const moving = changes.filter((change) => change.type === "position" && change.position && groupOf(change.id) !== null);
  if (!moving.length) return changes;
  const [byId, groups] = [new Map(nodes.map((node) => [node.id, node])), groupsOf(structure)];
  const known = new Set(changes.filter((change) => change.type === "position").map((change) => (change as { id: string }).id));
  const added = moving.flatMap((change): NodeChange<Placed>[] => {
    if (change.type !== "position" || !change.position) return [];
    const frame = byId.get(change.id)!.position;
    const [dx, dy] = [change.position.x - frame.x, change.position.y - frame.y];
    return (groups.get(groupOf(change.id)!) ?? []).filter((id) => !known.has(id)).map((id) => {
      const { x, y } = byId.get(id)!.position;
      return { ...change, id, position: { x: x + dx, y: y + dy } };
    });
  });
  return [...changes, ...added];
}

/** The places of nodes that have none in the structure. They are shown and not saved. */
function useMadePlaces(structure: Structure, types: Map<string, NodeType>): Map<string, Point> | null {
  const missing = structure.nodes.some((node) => !node.position);
  const key = missing ? JSON.stringify([structure.nodes.map((node) => node.id), structure.edges.map((edge) => [edge.source, edge.target])]) : "";
  const [made, setMade] = useState<{ key: string; places: Map<string, Point> }>({ key: "", places: new Map() });
  useEffect(() => {
    if (!key) return;
    let live = true;
    void positions(boxesOf(structure, types), structure.edges).then((places) => live && setMade({ key, places }));
    return () => void (live = false);
  }, [key]);
  return !key ? made.places : made.key === key || made.places.size ? made.places : null;
}

const boxesOf = (structure: Structure, types: Map<string, NodeType>) =>
  structure.nodes.map((node) => ({ id: node.id, width: WIDTH, height: heightOf(handlesOf(node, types)) }));

function Canvas(props: CanvasProps & { wanted: Placed[]; lines: Line[]; box: RefObject<HTMLDivElement | null>; first: Viewport }) {
  const { structure, types, marks, selected, canEdit, wanted, lines, box } = props;
  const { t } = useLanguage();
  const flow = useReactFlow();
  const [first] = useState(props.first);

  // While nodes are dragged, the canvas is ahead of the structure.
  const [nodes, setNodes] = useState<Placed[]>(wanted);
  // What the last change led to: changes can follow each other before the canvas is drawn again.
  const latest = useRef(nodes);
  useEffect(() => {
    latest.current = wanted;
    setNodes(wanted);
  }, [wanted]);
  const [picked, setPicked] = useState<string | null>(null);
  const [isDragging, setDragging] = useState(false);
  const scrolls = useScrolls();
  const jump = useJump();
  const drop = useRef<HTMLDivElement>(null);
  usePaper(drop, structure.nodes.length < CULL_FROM);
  useEffectsAtOnce();
  const edges = useMemo(() => (picked === null ? lines : lines.map((edge) => (edge.id === picked ? { ...edge, selected: true } : edge))), [lines, picked]);

  useImperativeHandle(props.ref, () => ({
    fit: () => void flow.fitView(FIT),
    show: (id) => {
      const find = () => [...(box.current?.querySelectorAll<HTMLElement>(".react-flow__node") ?? [])].find((one) => one.dataset.id === id);
      const focus = (node = find()) => {
        node?.focus({ preventScroll: true });
        return node !== undefined;
      };
      // A node that is there gets the focus at once: with the focus on nothing until the next frame, keys would be lost.
      const canMove = focusOfNow();
      if (!focus()) requestAnimationFrame(() => canMove() && focus());
    },
    jump,
    middle: () => {
      const at = box.current!.getBoundingClientRect();
      const point = flow.screenToFlowPosition({ x: at.left + at.width / 2, y: at.top + at.height / 2 });
      return { x: Math.round(point.x - WIDTH / 2), y: Math.round(point.y - HEAD / 2) };
    },
    tidy: () => positions(boxesOf(structure, types), structure.edges),
    places: () => new Map(latest.current.map((node) => [node.id, node.position])),
  }), [flow, jump, structure, types, box]);

  const onNodesChange = useCallback((given: NodeChange<Placed>[]) => {
    const changes = withMembers(given, latest.current, structure);
    const next = applyNodeChanges(changes, latest.current);
    latest.current = next;
    setNodes(next);
    if (changes.some((change) => change.type === "select")) {
      const ids = next.filter((node) => node.selected).map((node) => node.id);
      setPicked(null);
      props.onSelect(ids);
    }
    // The last change of a drag, and each step of the arrow keys.
    const ended = changes.filter((change) => change.type === "position" && change.dragging === false && change.position);
    if (ended.length) {
      const places = new Map(next.map((node) => [node.id, node.position]));
      const of = new Map(ended.map((change) => [(change as { id: string }).id, places.get((change as { id: string }).id)!]));
      props.onMove(structure.nodes.every((node) => node.position) ? of : places);
    }
  }, [props.onSelect, props.onMove, structure]);

  // The canvas would take the focus from the node too: on nothing, further keys would be lost. One that is not selected, it would select.
  const onEscape = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (selected.length) props.onSelect([]);
  };
  const onDrop = (event: DragEvent) => {
    const text = event.dataTransfer.getData(DRAGGED);
    if (!text || !canEdit) return;
    event.preventDefault();
    const point = flow.screenToFlowPosition({ x: event.clientX, y: event.clientY });
    props.onDrop(text, { x: Math.round(point.x - WIDTH / 2), y: Math.round(point.y - HEAD / 2) });
  };
  return (
    <div className="drop" ref={drop} onDrop={onDrop} onDragOver={(event) => canEdit && event.preventDefault()} onKeyDownCapture={onEscape} {...scrolls}>
      <ReactFlow
        nodes={nodes} edges={edges} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} defaultViewport={first} minZoom={0.05} maxZoom={2}
        nodesDraggable={canEdit} nodesConnectable={canEdit} elementsSelectable edgesFocusable={false} autoPanOnNodeFocus={false} zoomOnDoubleClick={false}
        deleteKeyCode={canEdit ? DELETE_KEYS : null} onlyRenderVisibleElements={structure.nodes.length >= CULL_FROM}
        onNodeDragStart={() => setDragging(true)} onNodeDragStop={() => setDragging(false)}
        onNodesChange={onNodesChange} onEdgesChange={(changes) => {
          for (const change of changes) if (change.type === "select") setPicked(change.selected ? change.id : null);
        }}
        onConnect={(made: Connection) => props.onConnect(made.source, made.sourceHandle ?? null, made.target)}
        onBeforeDelete={async ({ nodes: gone, edges: cut }) => {
          props.onDelete(gone.map((node) => node.id), cut.map((edge) => edge.id));
          return false;
        }}
        connectionRadius={36} proOptions={{ hideAttribution: true }}
      />
      {structure.nodes.length > 8 && <Overview nodes={wanted} label={t("builder.map")} />}
      <InSight fit={FIT} start={startOf(structure)} id={selected.length === 1 ? selected[0]! : marks?.current ?? null} isWhole={marks !== null} isDragging={isDragging} />
      <div className="gtools">
        <button type="button" className="button square" aria-label={t("run.zoomIn")} onClick={() => void flow.zoomIn()}><Icon name="plus" /></button>
        <button type="button" className="button square" aria-label={t("run.zoomOut")} onClick={() => void flow.zoomOut()}><Icon name="minus" /></button>
        <button type="button" className="button square" aria-label={t("run.fit")} onClick={() => void flow.fitView(FIT)}><Icon name="fit" /></button>
      </div>
    </div>
  );
}
