"""Types of what Flink's routes take and answer, for the contract with clients; `shapes` builds the answers.

Names with dashes are Flink's. Times are epoch ms, durations ms, sizes bytes.
"""
