import {
  Handle, MarkerType, type Node, type NodeHandle, type NodeProps, Position, ReactFlow, ReactFlowProvider,
  useReactFlow, type Viewport, type XYPosition,
} from "@xyflow/react";
import { type KeyboardEvent, createContext, memo, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { toneOf } from "../kit/kit";
import { brief } from "../kit/safe";
import type { Box, Way } from "./detour";
import { beginningOf, type Fit, firstView, InSight, useEffectsAtOnce, useJump, useScrolls } from "./InSight";
import { LONGEST_LABEL } from "./layout";
import { EDGE_TYPES, type Line, useDetours } from "./Line";
import { usePaper } from "./paper";
import { positions } from "./place";

/** The canvas knows no API: a graph, a source of states, and what happens on selection. */
export interface CanvasNode {
  id: string;
  type: string;
  title: string;
  subtitle: string;
  position?: { x: number; y: number } | null;
}

export interface CanvasEdge {
  id: string;
  source: string;
  target: string;
  label?: string;
}

export interface CanvasState {
  status: string;
  note: string;
}

export interface States {
  subscribe: (listener: () => void) => () => void;
  of: (id: string) => CanvasState;
  taken: (id: string) => boolean | null;
  version: () => number;
}

const WIDTH = 188;
const HEIGHT = 54;
const CULL_FROM = 300;
/** The least height of a node that fingers can hit, in pixels (WCAG 2.2, 2.5.8). */
const LEAST_TARGET = 24.5;
const isTouched = () => matchMedia("(any-pointer: coarse)").matches;
/** How a graph is fitted into its box. Of a large one only as much is shown as can be read. */
const fitOf = (count: number): Fit => ({ padding: 0.08, maxZoom: 1.1, minZoom: Math.max(count < CULL_FROM ? 0.2 : 0.3, isTouched() ? LEAST_TARGET / HEIGHT : 0) });
/** Where the handles are, from the upper left corner of a node; each is a point. */
const HANDLES: NodeHandle[] = [
  { type: "target", position: Position.Left, x: 0, y: HEIGHT / 2, width: 1, height: 1 },
  { type: "source", position: Position.Right, x: WIDTH - 1, y: HEIGHT / 2, width: 1, height: 1 },
];
const MARKER = { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--muted)" };
const StatesContext = createContext<States | null>(null);

type Placed = Node<{ node: CanvasNode }, "step">;

const GraphNode = memo(function GraphNode({ data, id }: NodeProps<Placed>) {
  const { t, has } = useLanguage();
  const states = useContext(StatesContext)!;
  const state = useSyncExternalStore(states.subscribe, () => states.of(id));
  const off = state.status === "skipped" || state.status === "cancelled";
  const kind = `type.${data.node.type}`;
  const tone = state.status === "done" ? "ok" : toneOf(state.status);
  return (
    <div className={`gnode ${off ? "off" : tone}`} part="node" data-status={state.status}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <span className="glyph"><Icon name={data.node.type} /></span>
      <span style={{ minWidth: 0 }}>
        <span className="name clip" style={{ display: "block" }}>{brief(data.node.title, 80)}</span>
        <span className="under clip" style={{ display: "block" }}>{brief(data.node.subtitle, 80) || (has(kind) ? t(kind) : data.node.type)}</span>
      </span>
      <span className="mark">
        {state.note}
        <Icon name={state.status} spin={state.status === "running"} />
        <span className="sr">{t(`status.${state.status}`)}</span>
      </span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

const NODE_TYPES = { step: GraphNode };

export interface GraphProps {
  nodes: CanvasNode[];
  edges: CanvasEdge[];
  states: States;
  selected: string | null;
  onSelect: (id: string | null) => void;
  label: string;
}

export function GraphView({ nodes, edges, states, selected, onSelect, label }: GraphProps) {
  const box = useRef<HTMLDivElement>(null);
  const placed = usePositions(nodes, edges);
  const shown = useMemo<Placed[] | null>(() => placed && nodes.map((node) => shownNode(node, placed.get(node.id))), [nodes, placed]);
  const lines = useLines(edges, placed, states);
  const fit = useMemo(() => fitOf(nodes.length), [nodes]);
  const size = { width: box.current?.clientWidth ?? 0, height: box.current?.clientHeight ?? 0 };
  const start = nodes.find((node) => node.type === "start")?.id;
  const begin = useMemo(() => shown && beginningOf(shown, start, size, fit), [shown]);
  return (
    <div className="graph" role="group" aria-label={label} aria-busy={!shown || undefined} ref={box}>
      {shown && begin && (
        <StatesContext value={states}>
          <ReactFlowProvider initialNodes={shown} initialEdges={lines} initialWidth={size.width} initialHeight={size.height} fitView
            initialFitViewOptions={{ ...fit, nodes: begin }} initialMinZoom={fit.minZoom} initialMaxZoom={fit.maxZoom}>
            <Canvas nodes={shown} lines={lines} fit={fit} first={firstView(begin, size, fit)} start={start} selected={selected} onSelect={onSelect} />
          </ReactFlowProvider>
        </StatesContext>
      )}
    </div>
  );
}

/** The positions of the nodes: those that all of them have, else those of the layout; null until they are known. */
function usePositions(nodes: CanvasNode[], edges: CanvasEdge[]): Map<string, XYPosition> | null {
  const [placed, setPlaced] = useState<Map<string, XYPosition> | null>(null);
  useEffect(() => {
    let live = true;
    if (nodes.length && nodes.every((node) => node.position)) {
      setPlaced(new Map(nodes.map((node) => [node.id, node.position!])));
    } else {
      const boxes = nodes.map((node) => ({ id: node.id, width: WIDTH, height: HEIGHT }));
      void positions(boxes, edges).then((found) => live && setPlaced(found));
    }
    return () => void (live = false);
  }, [nodes, edges]);
  return placed;
}

/**
 * The node with its sizes and handles: the canvas renders a node that lacks any of them once to measure it, in sight
 * or not.
 */
function shownNode(node: CanvasNode, position: XYPosition = { x: 0, y: 0 }): Placed {
  return {
    id: node.id, type: "step", data: { node }, position, width: WIDTH, height: HEIGHT, measured: { width: WIDTH, height: HEIGHT }, handles: HANDLES,
    draggable: false, connectable: false, deletable: false, ariaLabel: brief(`${node.title}, ${node.type}`, 120), ariaRole: "button",
  };
}

/** The edges. One whose state is the same stays the same object, and is not rendered again. */
function useLines(edges: CanvasEdge[], placed: Map<string, XYPosition> | null, states: States): Line[] {
  const version = useSyncExternalStore(states.subscribe, states.version);
  const known = useRef<{ edges: CanvasEdge[]; lines: Line[] }>({ edges: [], lines: [] });
  const around = useDetours(() => waysOf(edges, placed ?? new Map()), [edges, placed]);
  return useMemo(() => {
    const old = known.current.edges === edges ? known.current.lines : [];
    const lines = edges.map((edge, index) => {
      const taken = states.taken(edge.id);
      const className = taken ? "taken" : taken === false ? "untaken" : "";
      const before = old[index];
      const detour = around.get(edge.id);
      return before?.className === className && before.data?.detour === detour ? before : {
        id: edge.id, source: edge.source, target: edge.target, type: "default", focusable: false, selectable: false,
        className, ...(detour ? { data: { detour } } : {}), ...(edge.label ? { label: brief(edge.label, LONGEST_LABEL) } : {}), markerEnd: MARKER,
      };
    });
    const same = old.length === lines.length && lines.every((line, index) => line === old[index]);
    known.current = { edges, lines: same ? old : lines };
    return known.current.lines;
  }, [edges, around, states, version]);
}

/** The nodes as boxes, and the edges between their handles. */
function waysOf(edges: CanvasEdge[], placed: Map<string, XYPosition>): { boxes: Box[]; ways: Way[] } {
  const boxes = [...placed].map(([id, place]) => ({ id, ...place, width: WIDTH, height: HEIGHT }));
  const ways = edges.flatMap(({ id, source, target }) => {
    const [from, to] = [placed.get(source), placed.get(target)];
    if (!from || !to) return [];
    return [{ id, source, target, start: { x: from.x + WIDTH, y: from.y + HEIGHT / 2 }, end: { x: to.x, y: to.y + HEIGHT / 2 }, isDown: false }];
  });
  return { boxes, ways };
}

function Canvas({ nodes, lines, fit, first, start, selected, onSelect }: {
  nodes: Placed[]; lines: Line[]; fit: Fit; first: Viewport; start: string | undefined; selected: string | null; onSelect: (id: string | null) => void;
}) {
  const { t } = useLanguage();
  const flow = useReactFlow();
  const scrolls = useScrolls();
  const jump = useJump();
  const box = useRef<HTMLDivElement>(null);
  usePaper(box, nodes.length < CULL_FROM);
  useEffectsAtOnce();
  // A node that is chosen here is not moved below the pointer.
  const own = useRef(selected);
  const choose = (id: string | null) => {
    own.current = id;
    onSelect(id);
  };
  useEffect(() => {
    if (selected !== null && selected !== own.current) jump(selected);
    own.current = selected;
  }, [selected, jump]);
  // The canvas would select the node, or take the focus from it.
  const onEscape = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (selected !== null) choose(null);
  };
  const picked = useMemo(() => (selected === null ? nodes : nodes.map((node) => (node.id === selected ? { ...node, selected: true } : node))), [nodes, selected]);
  return (
    <div className="drop" ref={box} onKeyDownCapture={onEscape} {...scrolls}>
      <ReactFlow
        nodes={picked} edges={lines} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} defaultViewport={first} minZoom={0.05} maxZoom={2}
        nodesDraggable={false} nodesConnectable={false} elementsSelectable edgesFocusable={false} autoPanOnNodeFocus={false} deleteKeyCode={null} selectionKeyCode={null}
        multiSelectionKeyCode={null} onlyRenderVisibleElements={nodes.length >= CULL_FROM} onNodeClick={(_, node) => choose(node.id)}
        onPaneClick={() => choose(null)} onNodesChange={(changes) => {
          for (const change of changes) if (change.type === "select" && change.selected && change.id !== selected) choose(change.id);
        }}
        proOptions={{ hideAttribution: true }} zoomOnDoubleClick={false}
      />
      <InSight id={selected} fit={fit} graph={nodes} start={start} />
      <div className="gtools">
        <button type="button" className="button square" aria-label={t("run.zoomIn")} onClick={() => void flow.zoomIn()}><Icon name="plus" /></button>
        <button type="button" className="button square" aria-label={t("run.zoomOut")} onClick={() => void flow.zoomOut()}><Icon name="minus" /></button>
        <button type="button" className="button square" aria-label={t("run.fit")} onClick={() => void flow.fitView(fit)}><Icon name="fit" /></button>
      </div>
    </div>
  );
}
