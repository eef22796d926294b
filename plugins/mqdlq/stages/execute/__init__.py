"""Execute an accepted plan: make passes, record attempts and outcomes, and settle the account."""

from mqdlq.resources import Execution
from mqdlq.stages.execute.passes import PassResult, make_pass
from mqdlq.stages.execute.pending_steps import accept_plan
from mqdlq.stages.execute.settlement import settle

__all__ = ["Execution", "PassResult", "accept_plan", "make_pass", "settle"]
