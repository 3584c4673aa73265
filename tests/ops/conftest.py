import os
import sys

import pytest
from table_session import TableSession

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "data"))


@pytest.fixture
def table():
    """Makes tables, each in a session of its own that is closed at the end."""
    made = []

    def make(**options):
        made.append(TableSession(**options))
        return made[-1]

    yield make
    for each in made:
        each.session.close()
