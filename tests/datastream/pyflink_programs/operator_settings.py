"""Names, uids, chains and types of operators: none of them changes a result."""

from pyflink.common import Types
from pyflink.datastream import SlotSharingGroup, StreamExecutionEnvironment


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.register_slot_sharing_group(SlotSharingGroup.builder("slow").build())
    numbers = env.from_collection([5, 3, 8], Types.INT())
    doubled = numbers.map(lambda n: n * 2, Types.LONG()).name("double").uid("double").start_new_chain()
    kept = doubled.filter(lambda n: n > 6).disable_chaining().set_description("keeps the large ones")
    pairs = kept.map(lambda n: (n, str(n)), Types.TUPLE([Types.LONG(), Types.STRING()])).set_buffer_timeout(5)
    slow = pairs.map(lambda pair: pair[1] + "!", Types.STRING()).set_max_parallelism(8)
    slow.print().name("show").uid("show")
    print(doubled.get_name(), pairs.get_type(), slow.get_type() == Types.STRING(), numbers.get_type())
    print(slow.get_execution_config().get_parallelism())
    env.execute("settings")
    projected = pairs.project(1)
    print(projected.get_type())
    projected.print()
    env.execute("projection")
    pairs.project(1, 0).print()
    env.execute("projection")


if __name__ == "__main__":
    main()
