"""Models as nodes of TVM's IR: what `tvm.ir.save_json` writes, without TVM.

>>> graph = reflex.ir.load_json('{"root_index":2,"nodes":[{"type":"int","data":4},{"type":"None"},'
...     '{"type":"ffi.Array","data":[0,1,0]}]}')
>>> graph.root.key, [item.value for item in graph.root]
('ffi.Array', [4, None, 4])
>>> reflex.ir.load_json(graph.save_json()) == graph
True

`reflex.nodes` gives those of any model, as it was imported or after a pass; a graph is a model of
`reflex.compile`, and what a pass works on (`NodePass`).

Fields of an object are attributes by name (`node.op.name`), items of an array and entries of a map are
got by index and key. A graph does not change; `Graph.replaced` makes another.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ._library import LIBRARY as _reflex

__all__ = ["Graph", "Node", "NodePass", "first_mismatch", "load_json", "structural_equal", "structural_hash"]


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

    def script(self) -> str:
        """Returns the module that it is, as TVMScript; an error names what has no counterpart here.

        >>> "R.matmul" in reflex.nodes(script).script()
        True
        """
        return str(_reflex["ir_script"](self._handle))

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
        """Returns the graph with another node of it in place of a node, wherever that is referred to, or with
        another plain value in a node that is one.

        >>> graph = reflex.ir.load_json('{"root_index":1,"nodes":[{"type":"int","data":4},'
        ...     '{"type":"ffi.Array","data":[0,0]}]}')
        >>> [item.value for item in graph.replaced(graph.root[0], 5).root]
        [5, 5]
        >>> graph.replaced(graph.root, graph.root[0]).root
        <reflex.ir.Node int 4>
        """
        if node._graph is not self:
            raise ValueError("the node is of another graph")
        raw = json.loads(self.save_json())
        if isinstance(value, Node):
            if value._graph is not self:
                raise ValueError("the other node is of another graph")
            return load_json(json.dumps(_redirected(self, raw, node._at, value._at), ensure_ascii=False))
        if node._form != "value":
            raise ValueError("a node that is no plain value is replaced by a node")
        raw["nodes"][node._at]["data"] = value
        return load_json(json.dumps(raw, ensure_ascii=False))


class NodePass:
    """A pass of the caller's that works on nodes, for `passes` of `reflex.load`.

    >>> def seen(graph):
    ...     names.update(node.value for node in graph.walk() if node.key == "ir.Op")
    ...     return graph
    >>> names = set()
    >>> passes = {"before:fold_constants": reflex.ir.NodePass(seen)}
    >>> reflex.compile(script, passes=passes).functions, "relax.matmul" in names
    (['main'], True)
    """

    def __init__(self, run: Callable[[Graph], Graph]) -> None:
        self.__name__ = getattr(run, "__name__", "nodes")
        self._run = run

    def packed(self, graph: Any) -> Any:
        """Returns the graph that the pass gives, both as the library has them.

        >>> same = reflex.ir.NodePass(lambda graph: graph)
        >>> handle = reflex.nodes(script)._handle
        >>> same.packed(handle).same_as(handle)
        True
        """
        return self._run(Graph(graph))._handle


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


def _redirected(graph: Graph, raw: Any, old: int, new: int) -> Any:
    """The JSON of a graph in which what refers to a node refers to another, in an order where every node
    comes after those it refers to."""
    nodes = {node._at: node for node in graph.walk()}

    def references(at: int) -> list[int]:
        return [new if to == old else to for to in nodes[at]._references()]

    order: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack = [new if graph._root == old else graph._root]
    while stack:
        at = stack[-1]
        if at in order:
            stack.pop()
            continue
        below = [to for to in references(at) if to not in order]
        if not below:
            order[at] = len(order)
            stack.pop()
        elif at in open_nodes:
            raise ValueError("the other node refers to the one that it replaces")
        else:
            open_nodes.add(at)
            stack.extend(reversed(below))
    made = []
    for at in order:
        key, data = nodes[at]._key, raw["nodes"][at].get("data")
        if nodes[at]._form == "items":
            data = [order[new if to == old else to] for to in data]
        elif nodes[at]._form == "fields":
            inline = (str, int, float, type(None))
            held = dict(zip(nodes[at]._names, nodes[at]._held))
            data = {
                name: value if isinstance(held[name], inline) else order[new if value == old else value]
                for name, value in data.items()
            }
        made.append({"type": key} if "data" not in raw["nodes"][at] else {"type": key, "data": data})
    root = order[new if graph._root == old else graph._root]
    return {"root_index": root, "nodes": made, "metadata": raw.get("metadata", {})}


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
