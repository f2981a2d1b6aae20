import { BaseEdge, BezierEdge, type Edge, type EdgeProps, Position } from "@xyflow/react";
import { useMemo, useRef } from "react";
import { bendsOf, type Box, type Curve, type Detour, detours, type Way } from "./detour";

export type Line = Edge<{ detour?: Detour }>;

/** An edge that passes the nodes between its ends. */
function DetourEdge(props: EdgeProps<Line>) {
  const { sourceX, sourceY, sourcePosition, targetX, targetY, data, label, markerEnd, style, interactionWidth } = props;
  const bends = data?.detour && bendsOf({ x: sourceX, y: sourceY }, { x: targetX, y: targetY }, sourcePosition === Position.Bottom, data.detour);
  if (!bends) return <BezierEdge {...props} />;
  const [onto, off] = bends;
  const path = `M${sourceX},${sourceY}${curved(onto)}L${off[0].x},${off[0].y}${curved(off)}`;
  return <BaseEdge path={path} label={label} labelX={(onto[3].x + off[0].x) / 2} labelY={off[0].y} markerEnd={markerEnd} style={style} interactionWidth={interactionWidth} />;
}

const curved = ([, ...points]: Curve) => `C${points.map(({ x, y }) => `${x},${y}`).join(" ")}`;

export const EDGE_TYPES = { default: DetourEdge };

/** The detours of the edges: one that is the same stays the same object. */
export function useDetours(make: () => { boxes: Box[]; ways: Way[] }, dependencies: unknown[]): Map<string, Detour> {
  const known = useRef(new Map<string, Detour>());
  return useMemo(() => {
    const { boxes, ways } = make();
    const next = detours(boxes, ways);
    const old = known.current;
    for (const [id, { y, from, to }] of next) {
      const before = old.get(id);
      if (before && before.y === y && before.from === from && before.to === to) next.set(id, before);
    }
    const isSame = next.size === old.size && [...next].every(([id, detour]) => old.get(id) === detour);
    return (known.current = isSame ? old : next);
  }, dependencies);
}
