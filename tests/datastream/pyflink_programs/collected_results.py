"""execute_and_collect: all records, some of them, several streams of one environment, job results."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.LONG())
    with numbers.map(lambda n: n * n, Types.LONG()).execute_and_collect("squares") as squares:
        print(list(squares))
    print(numbers.execute_and_collect(limit=2))
    print(numbers.filter(lambda n: n > 10).execute_and_collect(limit=3))
    evens = numbers.filter(lambda n: n % 2 == 0).execute_and_collect()
    print(next(evens), evens.next())
    evens.close()
    typed = numbers.map(lambda n: (n, str(n)), Types.TUPLE([Types.INT(), Types.STRING()]))
    with typed.execute_and_collect() as pairs:
        print({type(pair).__name__ for pair in pairs})
    rows = numbers.map(lambda n: {"n": n}, Types.MAP(Types.STRING(), Types.LONG()))
    with rows.execute_and_collect() as maps:
        print(list(maps))
    numbers.print()
    result = env.execute("numbers")
    print(result.get_all_accumulator_results(), type(result.get_job_id()).__name__)
    numbers.print("again")
    client = env.execute_async("in the background")
    print(type(client.get_job_execution_result().result().get_job_id()).__name__)


if __name__ == "__main__":
    main()
