"""Names of settings."""

from wfcore.settings.names import nearest, setting_names, unknown_keys, unknown_variables


def test_all_tables_have_names() -> None:
    """Plain keys, tables, tables in tables, and the fields of a model."""
    assert {
        "database", "database.url", "limits.max_nodes", "server.trusted_proxies", "oauth.issuer", "oauth.claims.user",
        "models.*.provider", "studio.enabled", "retention.runs_days",
    } <= setting_names()  # fmt: skip
    assert not {"options", "models", "limits"} & setting_names()


def test_an_unknown_variable_names_the_nearest() -> None:
    """Settings, models and options of commands are known; other programs' variables do not count."""
    environ = dict.fromkeys((
        "WFCORE_DATABASE", "WFCORE_LIMITS_MAX_NODES", "WFCORE_MODELS_MY_FAST_API_KEY", "WFCORE_PORT", "WFCORE_CONFIG",
        "HOME", "WFCORE_OAUTH_CLAIMS_USER", "WFCORE_SHARDS_EAST", "WFCORE_DATABSE", "WFCORE_XQZ",
    ), "x")  # fmt: skip
    found = unknown_variables(environ, {"port"})
    assert [str(one) for one in found] == [
        "`WFCORE_DATABSE` in the environment: is not a setting, did you mean `WFCORE_DATABASE`?",
        "`WFCORE_XQZ` in the environment: is not a setting",
    ]


def test_every_unknown_key_of_a_file_is_found() -> None:
    """At the top, in a table, in a model; options of commands and properties of the theme are known."""
    tree = {
        "databse": "x", "port": 1, "limits": {"max_nods": 1, "max_edges": 2},
        "models": {"fast": {"provider": "openai", "modle": "x"}}, "studio": {"theme": {"--wf-color-accent": "red"}},
        "more": {"deep": {"er": 1}},
    }  # fmt: skip
    found = unknown_keys(tree, "a.toml", {"port"})
    assert [(one.name, one.nearest) for one in found] == [
        ("databse", "database"), ("limits.max_nods", "limits.max_nodes"), ("models.fast.modle", "models.fast.model"),
        ("more.deep.er", None),
    ]  # fmt: skip


def test_nothing_is_near() -> None:
    """Another word has no nearest name."""
    assert (nearest("prot", {"port", "host"}), nearest("xyz", {"port"})) == ("port", None)
