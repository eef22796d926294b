"""The first stage: find out by MQINQ whether there is work, and begin the run or wait."""
