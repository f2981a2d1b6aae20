import { getNodesBounds, getViewportForBounds, type Node, type ReactFlowInstance, type Rect, useReactFlow, useStore, useStoreApi, type Viewport } from "@xyflow/react";
import { type FocusEvent, type UIEvent, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** How a graph is fitted into its canvas. */
export interface Fit {
  padding: number;
  maxZoom: number;
  minZoom: number;
}

const MARGIN = 24;
/** The height of the row with the buttons of the canvas, at its lower edge: they cover what is below them. */
const BUTTONS = 48;
/** The least scale at which the names of nodes can be read. */
const READABLE = 0.75;
/** In a canvas of less width than this, as on a phone, most graphs cannot be read as a whole. */
const NARROW = 640;

interface Size {
  width: number;
  height: number;
}

const onCanvas = ({ x, y, width, height }: Rect, view: Viewport): Rect =>
  ({ x: x * view.zoom + view.x, y: y * view.zoom + view.y, width: width * view.zoom, height: height * view.zoom });

const isWithin = (rect: Rect, view: Viewport, size: Size): boolean => {
  const { x, y, width, height } = onCanvas(rect, view);
  return x >= 0 && y >= 0 && x + width <= size.width && y + height <= size.height;
};

const isSame = (one: Viewport, other: Viewport) => one.x === other.x && one.y === other.y && one.zoom === other.zoom;

/** The viewport moved just so far that the part of the graph is in sight; one that is too large begins at the edge. */
function panned(view: Viewport, rect: Rect, size: Size): Viewport {
  const { x, y, width, height } = onCanvas(rect, view);
  const into = (from: number, to: number, most: number) => (to > most - MARGIN && from > MARGIN ? Math.max(most - MARGIN - to, MARGIN - from) : from < MARGIN ? MARGIN - from : 0);
  return { x: view.x + into(x, x + width, size.width), y: view.y + into(y, y + height, size.height), zoom: view.zoom };
}

const fittedTo = (rect: Rect, { width, height }: Size, fit: Fit): Viewport => getViewportForBounds(rect, width, height, fit.minZoom, fit.maxZoom, fit.padding);

/** The viewport with the part in sight, moved if that is enough, else at a smaller scale. */
function fitted(view: Viewport, rect: Rect, size: Size, fit: Fit): Viewport {
  const near = panned(view, rect, size);
  return isWithin(rect, near, size) ? near : fittedTo(rect, size, { ...fit, maxZoom: Math.max(fit.minZoom, Math.min(fit.maxZoom, view.zoom)) });
}

/** What a graph begins with: all of it, or in a narrow canvas its start and as many of the next nodes as can be read together. */
export function beginningOf<One extends Node>(nodes: One[], start: string | undefined, size: Size, fit: Fit): One[] {
  const isReadable = (part: One[]) => fittedTo(getNodesBounds(part), size, fit).zoom >= READABLE;
  const first = nodes.find((node) => node.id === start);
  if (!first || size.width >= NARROW || isReadable(nodes)) return nodes;
  const awayOf = ({ position }: One) => Math.hypot(position.x - first.position.x, position.y - first.position.y);
  const near = nodes.filter((node) => node !== first).sort((one, other) => awayOf(one) - awayOf(other));
  const shown = [first];
  for (const node of near) {
    if (!isReadable([...shown, node])) break;
    shown.push(node);
  }
  return shown;
}

/** The viewport at first. */
export function firstView(begin: Node[], size: Size, fit: Fit): Viewport {
  return size.width && size.height && begin.length ? fittedTo(getNodesBounds(begin), size, fit) : { x: 0, y: 0, zoom: 1 };
}

/** A node with its neighbours, with those after it, and alone: what is shown if there is room for it. */
function partsAround(flow: ReactFlowInstance, id: string): Rect[] {
  const node = flow.getNode(id);
  if (!node) return [];
  const named = (ids: string[]) => getNodesBounds([node, ...ids.flatMap((one) => flow.getNode(one) ?? [])]);
  const after = flow.getEdges().flatMap(({ source, target }) => (source === id ? [target] : []));
  const before = flow.getEdges().flatMap(({ source, target }) => (target === id ? [source] : []));
  return [named([...before, ...after]), named(after), named([])];
}

interface Props {
  fit: Fit;
  /** What is drawn: another value is another graph, which is shown from its beginning. */
  graph?: unknown;
  /** The node at which the graph begins. */
  start?: string | undefined;
  /** The node that is selected alone, or that a simulation has come to. */
  id: string | null;
  /** The whole graph, or what it begins with, is to be in sight while nothing is selected. */
  isWhole?: boolean;
  /** Nodes are dragged: they must not move below the pointer. */
  isDragging?: boolean;
}

/**
 * Keeps in sight what the user works with, above the buttons of the canvas. The selected node, with its neighbours if there is room for them, and a
 * graph that was in sight as a whole, also when the canvas becomes smaller, as by the details of a node. When the
 * canvas has its size again, it shows what it showed before, if the user has not moved it.
 */
export function InSight({ id, fit, graph, start, isWhole = false, isDragging = false }: Props) {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const isThere = useStore((store) => id !== null && store.nodeLookup.has(id));
  const last = useRef<Size>({ width, height });
  const drawn = useRef(graph);
  const before = useRef<(Size & { from: Viewport; to: Viewport }) | null>(null);
  useEffect(() => {
    if (!width || !height || isDragging) return;
    const [old, size, now] = [last.current, { width, height }, flow.getViewport()];
    last.current = size;
    const isOther = drawn.current !== graph || !old.width || !old.height;
    drawn.current = graph;
    const kept = !isOther && before.current && isSame(before.current.to, now) ? before.current : null;
    if (kept && width >= kept.width && height >= kept.height) {
      before.current = null;
      void flow.setViewport(kept.from);
      return;
    }
    const room = { width, height: height - BUTTONS };
    const whole = getNodesBounds(flow.getNodes());
    const isSmaller = width < old.width || height < old.height;
    let next = isOther ? firstView(beginningOf(flow.getNodes(), start, size, fit), size, fit) : isSmaller && isWithin(whole, now, old) ? fitted(now, whole, room, fit) : now;
    const views = (id === null ? [] : partsAround(flow, id)).map((part) => ({ part, view: panned(next, part, room) }));
    next = (views.find(({ part, view }) => isWithin(part, view, room)) ?? views.at(-1))?.view ?? next;
    if (isSmaller || kept) before.current = { ...(kept ?? { ...old, from: now }), to: next };
    if (!isSame(now, next)) void flow.setViewport(next);
  }, [flow, fit, graph, start, id, isThere, width, height, isDragging]);
  useEffect(() => {
    if (!isWhole || id !== null || !width || !height) return;
    const size = { width, height };
    void flow.setViewport(firstView(beginningOf(flow.getNodes(), start, size, fit), size, fit));
  }, [flow, fit, start, isWhole, id, width, height]);
  return null;
}

/** Runs the effects of the first drawing before it is in sight: until then, the canvas loses what is clicked and pressed on its nodes. */
export function useEffectsAtOnce() {
  const [, drawAgain] = useState(false);
  useLayoutEffect(() => drawAgain(true), []); // React runs the effects of one drawing before the next one
}

/** Shows a node that was not chosen on the canvas at a scale at which it can be read. */
export function useJump() {
  const flow = useReactFlow();
  const store = useStoreApi();
  return useCallback((id: string) => {
    const node = flow.getNode(id);
    if (!node || flow.getViewport().zoom >= READABLE) return;
    const [rect, { width, height }] = [getNodesBounds([node]), store.getState()];
    const middle = (from: number, length: number, most: number) => most / 2 - (from + length / 2) * READABLE;
    void flow.setViewport({ x: middle(rect.x, rect.width, width), y: middle(rect.y, rect.height, height), zoom: READABLE });
  }, [flow, store]);
}

/**
 * Handlers for what is around the canvas. A browser scrolls what does not fit its box to bring a node into sight, as when
 * a text is found or a screen reader reads; the canvas would undo that. It moves the graph instead.
 */
export function useScrolls() {
  const flow = useReactFlow();
  const store = useStoreApi();
  const isByFocus = useRef(false);
  /** A node that gets the focus by key is brought into sight here: browsers do not scroll to what is left of a box. */
  const onFocusCapture = useCallback((event: FocusEvent<HTMLElement>) => {
    const node = flow.getNode(event.target.dataset.id ?? "");
    if (!node || !event.target.matches(":focus-visible")) return;
    isByFocus.current = true;
    requestAnimationFrame(() => void (isByFocus.current = false)); // scroll events come before it
    const [view, rect, size] = [flow.getViewport(), getNodesBounds([node]), store.getState()];
    if (!isWithin(rect, view, size)) void flow.setViewport(panned(view, rect, size));
  }, [flow, store]);
  const onScrollCapture = useCallback((event: UIEvent) => {
    const { classList, scrollLeft, scrollTop } = event.target as HTMLElement;
    if (!classList.contains("react-flow") || isByFocus.current || !(scrollLeft || scrollTop)) return;
    const { x, y, zoom } = flow.getViewport();
    void flow.setViewport({ x: x - scrollLeft, y: y - scrollTop, zoom });
  }, [flow]);
  return { onFocusCapture, onScrollCapture };
}
