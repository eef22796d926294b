"""Write the parts of a plan and digest them. No module here imports Spark."""
