"""An ONNX graph that grows operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tailmask._util.messages import require
from tailmask.learners.matrices import Array

__all__ = ["OPERATORS", "Graph"]

# The versions of ONNX's operators, of those for trees and labels, and of the file format. Version 3 of the
# operators for trees is the last one in which a leaf can add to several outputs.
OPERATORS, ML_OPERATORS, FORMAT = 20, 3, 10

_ML = ("LabelEncoder", "TreeEnsembleRegressor")


class Graph:
    """Inputs, operators and constants. Values are known by their names.

    >>> graph = Graph()
    >>> x = graph.input("x", np.float64, 1)
    >>> total = graph.op("Add", x, np.array([2.0]))
    >>> model = graph.model({"y": (total, np.float64)}, width=1, about={})
    >>> [node.op_type for node in model.graph.node]
    ['Add', 'Identity']
    """

    def __init__(self) -> None:
        self._helper = require("onnx.helper", extra="export")
        self._numpy = require("onnx.numpy_helper", extra="export")
        self._model = require("onnx", extra="export").ModelProto(ir_version=FORMAT, producer_name="tailmask")
        self._graph = self._model.graph
        self._graph.name = "tailmask"
        self._names: set[str] = set()

    def input(self, name: str, dtype: npt.DTypeLike, width: int) -> str:
        """An input (batch, width) of the program. All inputs come before the first operator."""
        self._graph.input.append(self._value(name, dtype, width))
        self._names.add(name)
        return name

    def op(self, kind: str, *inputs: str | Array, **attributes: Any) -> str:
        """The name of an operator's output. Arrays among its inputs are constants."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        output = self._fresh()
        domain = "ai.onnx.ml" if kind in _ML else ""
        node = self._graph.node.add(op_type=kind, domain=domain, input=names, output=[output])
        for name, value in attributes.items():
            if name.endswith("_as_tensor"):
                node.attribute.append(self._helper.make_attribute(name, self._numpy.from_array(value)))
            elif isinstance(value, np.ndarray):  # `make_attribute` is slow: it checks each number
                field = {"i": "ints", "f": "floats", "O": "strings"}[value.dtype.kind]
                attribute = node.attribute.add(name=name, type=field.upper())
                getattr(attribute, field).extend(value.tolist())
            else:
                node.attribute.append(self._helper.make_attribute(name, value))
        return output

    def cast(self, value: str, dtype: npt.DTypeLike) -> str:
        """The value in another type."""
        return self.op("Cast", value, to=self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def concat(self, values: Sequence[str]) -> str:
        """Values (batch, …) side by side."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=1)

    def embed(self, program: Any, inputs: Sequence[str]) -> list[str]:
        """The outputs of another ONNX model that takes these inputs."""
        compose = require("onnx.compose", extra="export")
        other = compose.add_prefix(program, f"{self._fresh()}/").graph
        for name, value in zip(inputs, other.input, strict=True):
            self._graph.node.add(op_type="Identity", input=[name], output=[value.name])
        self._graph.node.extend(other.node)
        self._graph.initializer.extend(other.initializer)
        return [value.name for value in other.output]

    def model(
        self, outputs: Mapping[str, tuple[str, npt.DTypeLike]], *, width: int, about: Mapping[str, str]
    ) -> Any:
        """The ONNX model with outputs (batch, width) of these values and types, and with its metadata."""
        for name, (value, dtype) in outputs.items():
            self._graph.node.add(op_type="Identity", input=[value], output=[name])
            self._graph.output.append(self._value(name, dtype, width))
        for domain, version in (("", OPERATORS), ("ai.onnx.ml", ML_OPERATORS)):
            self._model.opset_import.add(domain=domain, version=version)
        self._helper.set_model_props(self._model, dict(about))
        return self._model

    def _value(self, name: str, dtype: npt.DTypeLike, width: int) -> Any:
        kind = self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._helper.make_tensor_value_info(name, kind, ["batch", width])

    def _constant(self, value: Array) -> str:
        name = self._fresh()
        self._graph.initializer.append(self._numpy.from_array(np.ascontiguousarray(value), name))
        return name

    def _fresh(self) -> str:
        number = len(self._names)
        while str(number) in self._names:
            number += 1
        self._names.add(str(number))
        return str(number)
