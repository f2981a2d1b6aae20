import { getNodesBounds, type Node, useReactFlow, useStore } from "@xyflow/react";
import { type PointerEvent, useMemo } from "react";

const SIZE = { width: 200, height: 140 };

/** The whole graph in small, and the part in sight. All nodes are one path: an element for each would slow down drags. */
export function Overview({ nodes, label }: { nodes: Node[]; label: string }) {
  const flow = useReactFlow();
  const [x, y, zoom] = useStore((store) => store.transform);
  const width = useStore((store) => store.width) / zoom;
  const height = useStore((store) => store.height) / zoom;
  const all = useMemo(() => getNodesBounds(nodes), [nodes]);
  const path = useMemo(
    () => nodes.filter((node) => node.type !== "group").map(({ position, width: w = 0, height: h = 0 }) => `M${position.x} ${position.y}h${w}v${h}h${-w}z`).join(""), [nodes],
  );
  const show = (event: PointerEvent<SVGSVGElement>) => {
    const to = event.currentTarget.getScreenCTM();
    if (!to || !(event.buttons & 1)) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(to.inverse());
    void flow.setCenter(at.x, at.y, { zoom });
  };
  return (
    <svg className="overview hide-small" {...SIZE} viewBox={`${all.x} ${all.y} ${all.width} ${all.height}`} role="img" aria-label={label} onPointerDown={show} onPointerMove={show}>
      <path className="nodes" d={path} />
      <rect className="sight" x={-x / zoom} y={-y / zoom} width={width} height={height} />
    </svg>
  );
}
