import { define } from "./elements";

// The server chooses the prefix of the elements by the name of this file.
define(/([^/]+)\.js$/.exec(new URL(import.meta.url).pathname)![1]!);
