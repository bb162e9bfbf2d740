"""Pipelines that are drawn: the document, what is known of it, and the program that it becomes. Public names.

    document = read_document(Path("hot-auctions.json").read_text())
    program = compile_pipeline(document, load_catalog())
    program.source, program.problems

Nothing here runs a pipeline or asks anything outside. docs/pipelines.md describes documents and node types.
"""

from runtime.pipeline.catalog import Catalog as Catalog
from runtime.pipeline.catalog import load_catalog as load_catalog
from runtime.pipeline.compile import Program as Program
from runtime.pipeline.compile import compile_pipeline as compile_pipeline
from runtime.pipeline.document import Document as Document
from runtime.pipeline.document import DocumentError as DocumentError
from runtime.pipeline.document import canonical_text as canonical_text
from runtime.pipeline.document import read_document as read_document
from runtime.pipeline.facts import StreamFacts as StreamFacts
from runtime.pipeline.facts import Unknown as Unknown
from runtime.pipeline.node_type import NodeType as NodeType
from runtime.pipeline.problems import Code as Code
from runtime.pipeline.problems import NodeProblem as NodeProblem
from runtime.pipeline.problems import Problem as Problem
from runtime.pipeline.problems import Severity as Severity
from runtime.pipeline.validate import Memo as Memo
from runtime.pipeline.validate import Validation as Validation
from runtime.pipeline.validate import validate as validate

__all__ = [
    "Catalog",
    "Code",
    "Document",
    "DocumentError",
    "Memo",
    "NodeProblem",
    "NodeType",
    "Problem",
    "Program",
    "Severity",
    "StreamFacts",
    "Unknown",
    "Validation",
    "canonical_text",
    "compile_pipeline",
    "load_catalog",
    "read_document",
    "validate",
]
