"""Slow, plain reference loops: one episode at a time, float64, straight from the equations.

They are the independent check of the package's fast code, so they import nothing from it. Every loop is called like its
method, in a file called like the method's, and has the form
``method(support (S,D), support_labels (S,), query (Q,D), n_way, *, ...) -> (Q,W)`` with rows that sum to 1. One that
has a use for them takes ``unlabeled`` (U,D), ``base_mean`` (D,) and ``base_covariance`` (D,D), too.
"""
