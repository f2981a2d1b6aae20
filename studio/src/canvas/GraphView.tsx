import {
  type Edge, Handle, MarkerType, type Node, type NodeProps, Position, ReactFlow, ReactFlowProvider, useReactFlow, useStore,
} from "@xyflow/react";
import { createContext, memo, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { toneOf } from "../kit/kit";
import { brief } from "../kit/safe";
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

export function GraphView(props: GraphProps) {
  return (
    <StatesContext value={props.states}>
      <ReactFlowProvider><Canvas {...props} /></ReactFlowProvider>
    </StatesContext>
  );
}

function Canvas({ nodes, edges, states, selected, onSelect, label }: GraphProps) {
  const { t } = useLanguage();
  const flow = useReactFlow();
  const [placed, setPlaced] = useState<Map<string, { x: number; y: number }> | null>(null);
  const version = useSyncExternalStore(states.subscribe, states.version);

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

  const shown = useMemo<Placed[]>(
    () => placed === null ? [] : nodes.map((node) => ({
      id: node.id, type: "step", data: { node }, position: placed.get(node.id) ?? { x: 0, y: 0 }, width: WIDTH, height: HEIGHT,
      draggable: false, connectable: false, deletable: false, ariaLabel: brief(`${node.title}, ${node.type}`, 120), ariaRole: "button",
    })),
    [nodes, placed],
  );
  const picked = useMemo(() => shown.map((node) => (node.id === selected ? { ...node, selected: true } : node)), [shown, selected]);
  const lines = useMemo<Edge[]>(
    () => edges.map((edge) => {
      const taken = states.taken(edge.id);
      return {
        id: edge.id, source: edge.source, target: edge.target, type: "default", focusable: false, selectable: false,
        className: taken ? "taken" : taken === false ? "untaken" : "", ...(edge.label ? { label: brief(edge.label, 24) } : {}),
        markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--muted)" },
      };
    }),
    [edges, states, version],
  );
  if (placed === null) return <div className="graph" aria-busy="true" />;
  return (
    <div className="graph" role="group" aria-label={label}>
      <ReactFlow
        nodes={picked} edges={lines} nodeTypes={NODE_TYPES} fitView fitViewOptions={{ padding: 0.08, maxZoom: 1.1, minZoom: 0.3 }} minZoom={0.05} maxZoom={2}
        nodesDraggable={false} nodesConnectable={false} elementsSelectable edgesFocusable={false} deleteKeyCode={null} selectionKeyCode={null}
        multiSelectionKeyCode={null} onlyRenderVisibleElements={nodes.length >= CULL_FROM} onNodeClick={(_, node) => onSelect(node.id)}
        onPaneClick={() => onSelect(null)} onNodesChange={(changes) => {
          for (const change of changes) if (change.type === "select" && change.selected && change.id !== selected) onSelect(change.id);
        }}
        proOptions={{ hideAttribution: true }} zoomOnDoubleClick={false}
      />
      <Follow selected={selected} />
      <div className="gtools">
        <button type="button" className="button square" aria-label={t("run.zoomIn")} onClick={() => void flow.zoomIn()}><Icon name="plus" /></button>
        <button type="button" className="button square" aria-label={t("run.zoomOut")} onClick={() => void flow.zoomOut()}><Icon name="minus" /></button>
        <button type="button" className="button square" aria-label={t("run.fit")} onClick={() => void flow.fitView({ padding: 0.08, maxZoom: 1.1, minZoom: 0.3 })}><Icon name="fit" /></button>
      </div>
    </div>
  );
}

/** Fits the graph again when its box changes, and keeps the selected node in sight. */
function Follow({ selected }: { selected: string | null }) {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const chosen = useRef(selected);
  chosen.current = selected;
  useEffect(() => {
    if (!width || !height) return;
    const one = chosen.current ? flow.getNode(chosen.current) : undefined;
    if (!one) {
      void flow.fitView({ padding: 0.08, maxZoom: 1.1, minZoom: 0.3 });
      return;
    }
    const { x, y, zoom } = flow.getViewport();
    const left = one.position.x * zoom + x;
    const top = one.position.y * zoom + y;
    if (left < 0 || top < 0 || left + WIDTH * zoom > width || top + HEIGHT * zoom > height) {
      void flow.setCenter(one.position.x + WIDTH / 2, one.position.y + HEIGHT / 2, { zoom: Math.max(zoom, 0.6) });
    }
  }, [flow, width, height, selected]);
  return null;
}
