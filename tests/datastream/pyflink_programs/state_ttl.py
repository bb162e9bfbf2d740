"""State with a time to live that does not end while the program runs, and the settings of such a time."""

from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor

EVENTS = [("a", 1), ("a", 2), ("b", 3), ("a", 4)]


def limited(descriptor, ttl):
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(ttl)
        .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
        .build()
    )
    return descriptor


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        long = Time.hours(1)
        self.lasting = runtime_context.get_state(limited(ValueStateDescriptor("lasting", Types.INT()), long))
        self.lasting_list = runtime_context.get_list_state(limited(ListStateDescriptor("ll", Types.INT()), long))
        self.lasting_map = runtime_context.get_map_state(
            limited(MapStateDescriptor("lm", Types.INT(), Types.STRING()), long)
        )

    def process_element(self, value, ctx):
        number = value[1]
        seen = self.lasting.value()
        self.lasting.update(number)
        self.lasting_list.add(number)
        self.lasting_map.put(number, "x" * number)
        yield f"{value} {seen} {list(self.lasting_list.get())} {sorted(self.lasting_map.items())}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    events = env.from_collection(EVENTS, Types.TUPLE([Types.STRING(), Types.INT()]))
    events.key_by(lambda event: event[0], key_type=Types.STRING()).process(Remember(), Types.STRING()).print()
    env.execute()
    config = StateTtlConfig.new_builder(Time.days(1)).use_processing_time().cleanup_full_snapshot().build()
    print(config.is_enabled(), config.get_ttl().to_milliseconds(), config.get_update_type().name)
    print(config.get_state_visibility().name, config.get_ttl_time_characteristic().name)
    print(config.get_cleanup_strategies().in_full_snapshot())


if __name__ == "__main__":
    main()
