"""Python texts become trees."""

import ast
import sys
import threading

import pytest

from conftest import RIGHT
from kernelrl.syntax import parse


class Restless:
    """Its end, which comes wherever the garbage collector runs, lets another thread go on."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(20):
            pass


@pytest.fixture
def quick_changes():
    """Of threads."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_that_parse_at_once_do_not_disturb_each_other(quick_changes):
    expected, found = ast.dump(ast.parse(RIGHT)), []

    def work():
        for _ in range(300):
            [Restless() for _ in range(20)]
            found.append(parse(RIGHT))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1200 and {ast.dump(tree) for tree in found} == {expected}


def test_what_is_no_python_is_refused_as_by_the_interpreter():
    with pytest.raises(SyntaxError):
        parse("class ModelNew(:\n")
