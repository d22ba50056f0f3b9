"""Inference methods: Episodes → class probabilities (E, Q, W). One paper or kind per file; `by_name` has the list.

A method is a function `name(episodes, *, …) -> Tensor`, pure and batched over episodes. Its settings are declared in
its signature (`settings`); every method keeps the laws of tests/core/test_laws.py.
"""

from protoadapt.core.methods.by_name import METHODS as METHODS
from protoadapt.core.methods.by_name import Method as Method
from protoadapt.core.methods.by_name import method as method
from protoadapt.core.methods.by_name import parse_assignments as parse_assignments
from protoadapt.core.methods.by_name import split_specs as split_specs
from protoadapt.core.methods.settings import declarations as declarations
