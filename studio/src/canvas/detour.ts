/** How edges pass nodes that stand between their ends: above or below them, where the plain curve would run behind. */

interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  id: string;
  width: number;
  height: number;
}

/** An edge, from a handle at the right of its source, or below it, to one at the left of its target. */
export interface Way {
  id: string;
  source: string;
  target: string;
  start: Point;
  end: Point;
  isDown: boolean;
}

/** The level of the straight part of an edge, and where that begins and ends. One that leads back ends at the left. */
export interface Detour {
  y: number;
  from: number;
  to: number;
}

export type Curve = [Point, Point, Point, Point];

/** How far from a node an edge passes it, and the steps in which further edges keep a distance from it. */
const BESIDE = 12;
const STEP = 6;
const STEPS = [0, 1, 2, 3];
const CLEAR = 5;
/** The room between a handle and the straight part. */
const BEND = 16;
const SAMPLES = 24;
/** Of larger graphs only a part is in sight. */
const MOST_NODES = 1_000;

/** The detours of the edges that need one. */
export function detours(boxes: Box[], ways: Way[]): Map<string, Detour> {
  const found = new Map<string, Detour>();
  if (boxes.length > MOST_NODES) return found;
  const used: (Detour & Way)[] = [];
  for (const way of ways) {
    const between = inTheWay(boxes, way);
    if (!between.length) continue;
    const ends = isBack(way)
      ? { from: way.start.x + BEND, to: way.end.x - BEND }
      : { from: Math.max(way.start.x + BEND, Math.min(...between.map((box) => box.x)) - BESIDE), to: Math.min(way.end.x - BEND, Math.max(...between.map((box) => box.x + box.width)) + BESIDE) };
    const levels = levelsOf(between, way);
    const y = levels.find((level) => used.every((one) => isApart(one, { ...way, ...ends, y: level }))) ?? levels[0];
    if (y === undefined) continue;
    used.push({ ...way, ...ends, y });
    found.set(way.id, { ...ends, y });
  }
  return found;
}

const isBack = ({ start, end }: Pick<Way, "start" | "end">) => end.x < start.x;

/** The nodes that a straight part has to pass, if the plain curve would run behind one of them. */
function inTheWay(boxes: Box[], way: Way): Box[] {
  const { start, end, source, target } = way;
  if (isBack(way)) return boxes.filter((box) => box.x < start.x + 2 * BEND && box.x + box.width > end.x - 2 * BEND);
  if (end.x - start.x < 2 * BEND) return [];
  const between = boxes.filter((box) => box.x < end.x && box.x + box.width > start.x && box.id !== source && box.id !== target);
  const half = (end.x - start.x) / 2;
  const first = way.isDown ? { x: start.x, y: start.y + Math.max(end.y - start.y, 0) / 2 } : { x: start.x + half, y: start.y };
  const curve: Curve = [start, first, { x: end.x - half, y: end.y }, end];
  return between.some((box) => runsBehind(curve, box)) ? between : [];
}

function runsBehind(curve: Curve, box: Box): boolean {
  for (let index = 1; index < SAMPLES; index++) {
    const { x, y } = pointOf(curve, index / SAMPLES);
    if (x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height) return true;
  }
  return false;
}

export function pointOf([a, b, c, d]: Curve, at: number): Point {
  const [p, q, r, s] = [(1 - at) ** 3, 3 * (1 - at) ** 2 * at, 3 * (1 - at) * at ** 2, at ** 3];
  return { x: p * a.x + q * b.x + r * c.x + s * d.x, y: p * a.y + q * b.y + r * c.y + s * d.y };
}

/** The levels that touch no node, the nearest to the ends first. */
function levelsOf(between: Box[], { start, end, isDown }: Way): number[] {
  const middle = (start.y + end.y) / 2;
  return between.flatMap((box) => STEPS.flatMap((step) => [box.y - BESIDE - step * STEP, box.y + box.height + BESIDE + step * STEP]))
    .filter((y) => (!isDown || y > start.y) && !between.some((box) => y > box.y - CLEAR && y < box.y + box.height + CLEAR))
    .sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle));
}

/** Whether two straight parts can be told apart. Edges from or to one handle may run together. */
function isApart(one: Detour & Way, other: Detour & Way): boolean {
  const [from, to] = [Math.max(Math.min(one.from, one.to), Math.min(other.from, other.to)), Math.min(Math.max(one.from, one.to), Math.max(other.from, other.to))];
  return from >= to || Math.abs(one.y - other.y) >= STEP || one.target === other.target || isSame(one.start, other.start);
}

const isSame = (one: Point, other: Point) => one.x === other.x && one.y === other.y;

/** The curves before and after the straight part; null when the ends are elsewhere meanwhile, as while a node is dragged. */
export function bendsOf(start: Point, end: Point, isDown: boolean, { y, from, to }: Detour): [Curve, Curve] | null {
  const back = isBack({ start, end });
  if (back !== to < from || (back ? from < start.x || to > end.x : from < start.x || to > end.x || to < from)) return null;
  const [out, into] = back ? [2 * BEND, 2 * BEND] : [(from - start.x) / 2, (end.x - to) / 2];
  const first = isDown ? { x: start.x, y } : { x: start.x + out, y: start.y };
  return [
    [start, first, { x: back ? from + BEND : from - out, y }, { x: from, y }],
    [{ x: to, y }, { x: back ? to - BEND : to + into, y }, { x: end.x - into, y: end.y }, end],
  ];
}
