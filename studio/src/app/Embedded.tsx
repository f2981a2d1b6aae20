import { useMemo } from "react";
import type { PageElement } from "../elements/base";
import { useHost, useLoaded } from "../elements/context";
import { Failure, Loading } from "../kit/kit";
import { byAttribute, type Navigation, useAddress } from "./router";
import { personOf, Shell, type ShellConfig } from "./Shell";

interface Props {
  element: PageElement;
  config: ShellConfig;
}

/** The application in the page of a product, which signs its users in. It changes the address only below `basePath`. */
export default function Embedded({ basePath, route, ...props }: Props & { basePath: string | null; route: string }) {
  const attribute = useMemo(() => byAttribute(props.element), [props.element]);
  if (basePath === null) return <Pages {...props} navigation={attribute} path={route} />;
  return <InAddress {...props} base={`${basePath.replace(/\/$/, "")}/`} />;
}

function InAddress({ base, ...props }: Props & { base: string }) {
  return <Pages {...props} {...useAddress(base)} />;
}

function Pages(props: Props & { navigation: Navigation; path: string }) {
  const { api } = useHost();
  const { value: me, problem, reload } = useLoaded("me", () => api.me());
  if (problem) return <Failure isPage problem={problem} onRetry={reload} />;
  if (!me) return <Loading rows={8} />;
  return <Shell key={personOf(me)} {...props} me={me} />;
}
