import { useEffect, useMemo, useState } from "react";
import type { PageElement } from "../elements/base";
import { useHost, useLoaded } from "../elements/context";
import { Failure, Loading } from "../kit/kit";
import { byAddress, byAttribute } from "./router";
import { Shell, type ShellConfig } from "./Shell";

/** The application in the page of a product, which signs its users in. It changes the address only below `basePath`. */
export default function Embedded({ element, basePath, route, config }: {
  element: PageElement; basePath: string | null; route: string; config: ShellConfig;
}) {
  const { api } = useHost();
  const { value: me, problem, reload } = useLoaded("me", () => api.me());
  const [, changed] = useState(0);
  const navigation = useMemo(() => {
    const onChange = () => changed((count) => count + 1);
    return basePath === null ? byAttribute(element) : byAddress(`${basePath.replace(/\/$/, "")}/`, onChange);
  }, [element, basePath]);
  useEffect(() => {
    const read = () => changed((count) => count + 1);
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, []);
  if (problem) return <Failure problem={problem} onRetry={reload} />;
  if (!me) return <Loading rows={8} />;
  return <Shell element={element} config={config} navigation={navigation} path={basePath === null ? route : navigation.path()} me={me} />;
}
