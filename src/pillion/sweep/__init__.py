# SPDX-License-Identifier: Apache-2.0
"""Many variants of models, compiled and measured by a cluster of workers, and what each of them costs.

plan         what the user's file asks for                                     plan.py, tables.py
jobs         one for each variant, known by the content of all it reads        jobs.py, contents.py
work         what a worker does with a job, and what it gives back             work.py, result.py
store        a folder that keeps every result, so that nothing is done twice   store.py
cluster      workers on this computer, or those of a scheduler                 cluster.py
run, search  all variants of a plan, or those that an optimizer asks for       run.py, search.py
view         the variants that no other one beats, table and picture           front.py, table.py, picture.py"""
