"""Exported agents as somebody might make them who means harm: any program, any entry of the zip file, any byte."""

import random
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
from jax import export
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from coverset.policy import Policy

STEP = """
module {top} {{
  func.func public @main(%platform: tensor<i32>, %key: tensor<2xui32>, %observation: tensor<1xf32>,
      %reward: tensor<f32>, %done: tensor<i1>, %started: tensor<i1>, %next: tensor<i32>)
      -> (tensor<i32>, tensor<i1>, tensor<i32>) {{
    {body}
    return %next, %started, %next : tensor<i32>, tensor<i1>, tensor<i32>
  }}
  {beside}
}}
"""
"""A step in the matrix game whose memory is one whole number, and what may be put into it."""
STEPS = """
module {{
  func.func public @main(%platform: tensor<i32>, %key: tensor<?x2xui32>, %observation: tensor<?x1xf32>,
      %reward: tensor<?xf32>, %done: tensor<?xi1>, %started: tensor<?xi1>, %next: tensor<?xi32>)
      -> (tensor<?xi32>, tensor<?xi1>, tensor<?xi32>) {{
    {body}
    return %next, %started, %chosen : tensor<?xi32>, tensor<?xi1>, tensor<?xi32>
  }}
}}
"""
"""The same for several agents; the body defines what is remembered."""


class Remembering(Policy):
    """Plays the number that it remembers, and counts on."""

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return memory, (memory + 1) % 3


def entries(source: Path) -> dict[str, bytes]:
    """What an exported agent holds."""
    with zipfile.ZipFile(source) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(target: Path, content: dict[str, bytes]) -> Path:
    """A zip file of these entries."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return target


def compiled(text: str) -> bytes:
    """A program from its text, which need not make sense to anybody."""
    with make_ir_context():
        module = ir.Module.parse(text)
        return bytes(stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True))


def enclosed(part: bytes, program: bytes, **fields) -> bytes:
    """What jax.export wrote, with another program and other fields around it."""
    return bytes(replace(export.deserialize(bytearray(part)), mlir_module_serialized=program, **fields).serialize())


def with_step(source: Path, target: Path, body: str = "", beside: str = "", top: str = "") -> Path:
    """An exported agent whose step does this."""
    content = entries(source)
    program = compiled(STEP.format(body=body, beside=beside, top=top))
    return write(target, content | {"step.bin": enclosed(content["step.bin"], program)})


def with_steps(source: Path, target: Path, body: str) -> Path:
    """An exported agent whose step for several agents does this."""
    content = entries(source)
    program = compiled(STEPS.format(body=body))
    return write(target, content | {"steps.bin": enclosed(content["steps.bin"], program)})


def with_declared_size(source: Path, name: str, size: int) -> bytes:
    """The bytes of a zip file which says in its list that an entry has another size."""
    data = bytearray(source.read_bytes())
    place = data.rindex(name.encode()) - 46
    assert data[place : place + 4] == b"PK\x01\x02"
    data[place + 24 : place + 28] = struct.pack("<I", size)
    return bytes(data)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Some bytes changed, cut out, put in, or the end cut off."""
    changed = bytearray(data)
    place, length = chance.randrange(len(data)), chance.randrange(1, 20)
    match chance.randrange(6):
        case 0:
            del changed[place:]
        case 1:
            del changed[place : place + length]
        case 2:
            changed[place:place] = chance.randbytes(length)
        case _:
            for _ in range(chance.choice((1, 1, 2, 8))):
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return bytes(changed)
