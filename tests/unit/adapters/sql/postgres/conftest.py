"""An empty database with two organizations."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from postgres_databases import opened
from postgres_server import new_database

from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.people.people import Organization
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    async with opened(url) as database:
        for org in (ORG, OTHER_ORG):
            await SqlStorage(database).add_organization(Organization(org, "one", datetime(2026, 1, 1, tzinfo=UTC)))
        yield database
