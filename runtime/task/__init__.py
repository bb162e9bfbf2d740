"""Slots and the tasks in them: mailbox loop, operator chains, input gates, control stream to the JobMaster."""
