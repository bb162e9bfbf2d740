"""JobMaster: the life of one job, decided in pure state machines and acted on by a driver.

`life_cycle.JobMasterMachine` takes events and returns actions; only the driver knows sockets, threads, time and Spark.
"""
