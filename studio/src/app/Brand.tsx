import { Icon } from "../kit/icons";

export function Brand({ config }: { config: { title: string; logo: string | null } }) {
  return (
    <div className="brand">
      {config.logo ? <img src={config.logo} alt="" /> : <span className="mark"><Icon name="workflows" /></span>}
      <span className="clip">{config.title}</span>
    </div>
  );
}
