"""IR of TVM as nodes: what `tvm.ir.save_json` writes, without TVM.

>>> graph = reflex.ir.load_json('{"root_index":2,"nodes":[{"type":"int","data":4},{"type":"None"},'
...     '{"type":"ffi.Array","data":[0,1,0]}]}')
>>> graph.root.key, [item.value for item in graph.root]
('ffi.Array', [4, None, 4])
>>> reflex.ir.load_json(graph.save_json()) == graph
True

Fields of an object are attributes by name (`node.op.name`), items of an array and entries of a map are
got by index and key. A graph does not change; `Graph.replaced` makes another.
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ._library import LIBRARY as _reflex

__all__ = ["Graph", "Node", "first_mismatch", "load_json", "structural_equal", "structural_hash"]


class Graph:
    """Nodes, and the one that the graph is about."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        root, self._count = (int(number) for number in _reflex["ir_size"](handle))
        self._root = root

    @property
    def root(self) -> Node:
        """The node that the graph is about.

        >>> reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"int","data":4}]}').root
        <reflex.ir.Node int 4>
        """
        return Node(self, self._root)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and structural_equal(self, other)

    def __hash__(self) -> int:
        return hash(structural_hash(self))

    def save_json(self) -> str:
        """Returns the JSON that `tvm.ir.load_json` reads.

        >>> reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"None"}]}').save_json()
        '{"root_index":0,"nodes":[{"type":"None"}]}'
        """
        return str(_reflex["ir_save"](self._handle))

    def walk(self) -> Iterator[Node]:
        """Yields every node that the root reaches, once, each before those it refers to.

        >>> graph = reflex.ir.load_json('{"root_index":1,"nodes":[{"type":"int","data":4},'
        ...     '{"type":"ffi.Array","data":[0,0]}]}')
        >>> [node.key for node in graph.walk()]
        ['ffi.Array', 'int']
        """
        seen: set[int] = set()
        stack = [self._root]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            node = Node(self, at)
            yield node
            stack.extend(reversed(node._references()))

    def replaced(self, node: Node, value: Any) -> Graph:
        """Returns the graph with another plain value in a node that is one, wherever it is referred to.

        >>> graph = reflex.ir.load_json('{"root_index":1,"nodes":[{"type":"int","data":4},'
        ...     '{"type":"ffi.Array","data":[0,0]}]}')
        >>> [item.value for item in graph.replaced(graph.root[0], 5).root]
        [5, 5]
        """
        if node._graph is not self or node._form != "value":
            raise ValueError("only a node of this graph that is a plain value is replaced")
        raw = json.loads(self.save_json())
        raw["nodes"][node._at]["data"] = value
        return load_json(json.dumps(raw, separators=(",", ":"), ensure_ascii=False))


class Node:
    """A node of a graph."""

    def __init__(self, graph: Graph, at: int) -> None:
        self._graph, self._at = graph, at
        key, form, names, held = _reflex["ir_node"](graph._handle, at)
        self._key, self._form = str(key), str(form)
        self._names = [str(name) for name in names]
        self._held = list(held)

    @property
    def key(self) -> str:
        """The key of its type, such as `ir.Call`.

        >>> reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"None"}]}').root.key
        'None'
        """
        return self._key

    @property
    def value(self) -> Any:
        """The plain value that it is; None if it is none.

        >>> reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"ffi.String","data":"x"}]}').root.value
        'x'
        """
        return self._plain(self._held[0]) if self._form == "value" else None

    @property
    def fields(self) -> list[str]:
        """The names of its fields, in order.

        >>> reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"None"}]}').root.fields
        []
        """
        return list(self._names)

    def __repr__(self) -> str:
        return f"<reflex.ir.Node {self._key}{'' if self._form != 'value' else f' {self.value!r}'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and (self._graph, self._at) == (other._graph, other._at)

    def __hash__(self) -> int:
        return self._at

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"a {self._key} has no field {name!r}; it has {', '.join(self._names)}")
        return self._item(self._held[self._names.index(name)])

    def __len__(self) -> int:
        return len(self._held) // (2 if self._is_map() else 1)

    def __iter__(self) -> Iterator[Any]:
        """The items of an array, the keys of a map."""
        step = 2 if self._is_map() else 1
        return (self._item(item) for item in self._held[::step])

    def __getitem__(self, key: Any) -> Any:
        """The item of an array by index; the value of a map by its key, which may be a string or the name
        of a global variable."""
        if not self._is_map():
            return self._item(self._held[key])
        for at in range(0, len(self._held), 2):
            found = self._item(self._held[at])
            if found.value == key or _name(found) == key:
                return self._item(self._held[at + 1])
        raise KeyError(key)

    def _is_map(self) -> bool:
        return self._key in ("ffi.Map", "ffi.Dict")

    def _item(self, held: Any) -> Any:
        if isinstance(held, (str, int, float, type(None))):
            return self._plain(held)
        return Node(self._graph, int(held[0]))

    @staticmethod
    def _plain(held: Any) -> Any:
        return str(held) if isinstance(held, str) else held

    def _references(self) -> list[int]:
        plain = (str, int, float, type(None))
        return [int(held[0]) for held in self._held if not isinstance(held, plain)]


def _name(node: Node) -> Any:
    if "name_hint" in node.fields:
        name = node.name_hint
        return name.value if isinstance(name, Node) else name
    return None


def load_json(text: str) -> Graph:
    """Reads what `tvm.ir.save_json` wrote.

    >>> reflex.ir.load_json("[]")
    Traceback (most recent call last):
        ...
    ValueError: byte 0: `{` is missing
    """
    return Graph(_reflex["ir_load"](text))


def structural_equal(a: Graph, b: Graph) -> bool:
    """True if two graphs are the same but for names of variables and spans, as `tvm_ffi.structural_equal`
    has it with `map_free_vars`.

    >>> one = reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"int","data":1}]}')
    >>> reflex.ir.structural_equal(one, one)
    True
    """
    return first_mismatch(a, b) is None


def first_mismatch(a: Graph, b: Graph) -> tuple[str, str] | None:
    """Returns the path of the first difference of two graphs and what it is, or None.

    >>> one, two = (reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"int","data":%d}]}' % n)
    ...     for n in (1, 2))
    >>> reflex.ir.first_mismatch(one, two)
    ('<root>', '1 is not 2')
    """
    found = _reflex["ir_mismatch"](a._handle, b._handle)
    return None if found is None else (str(found[0]), str(found[1]))


def structural_hash(graph: Graph) -> str:
    """Returns the structural hash, in hexadecimal: the same for equal graphs, in every process.

    >>> len(reflex.ir.structural_hash(reflex.ir.load_json('{"root_index":0,"nodes":[{"type":"None"}]}')))
    64
    """
    return str(_reflex["ir_hash"](graph._handle))
