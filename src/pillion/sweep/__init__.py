# SPDX-License-Identifier: Apache-2.0
"""Compiles and measures many variants of models on worker processes.

sweep file    models, axes, measurements and goals             sweep_file.py, axes.py, toml_tables.py
jobs          one per variant, identified by content hashes    variants.py, jobs.py, fingerprint.py
work          a worker's job and its result                    job_worker.py, job_result.py
store         a folder that keeps every result                 store.py
workers       local processes, or a Dask cluster               local_workers.py, cluster.py
runs          all variants, or an optimizer's proposals        runner.py, optuna_search.py
outputs       Pareto front, table and picture                  pareto.py, result_table.py, scatter_plot.py
"""
