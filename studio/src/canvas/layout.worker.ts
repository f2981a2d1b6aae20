import { layout, type LayoutEdge, type LayoutNode } from "./layout";

self.onmessage = (event: MessageEvent<{ nodes: LayoutNode[]; edges: LayoutEdge[] }>) => {
  self.postMessage([...layout(event.data.nodes, event.data.edges)]);
};
