"""Everything that a map state and a list state can do."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

COMMANDS = [
    ("k", "show", ""),
    ("k", "put", "a=1"),
    ("k", "put", "b=2"),
    ("k", "show", ""),
    ("other", "show", ""),
    ("k", "put", "a=3"),
    ("k", "all", "c=4,d=5"),
    ("k", "remove", "b"),
    ("k", "remove", "missing"),
    ("k", "show", ""),
    ("k", "get", "a"),
    ("k", "get", "b"),
    ("k", "clear", ""),
    ("k", "show", ""),
]


class Obey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.marks = runtime_context.get_map_state(MapStateDescriptor("marks", Types.STRING(), Types.INT()))
        self.log = runtime_context.get_list_state(ListStateDescriptor("log", Types.STRING()))

    def process_element(self, value, ctx):
        _, command, argument = value
        self.log.add(command)
        if command == "put":
            name, number = argument.split("=")
            self.marks.put(name, int(number))
        elif command == "all":
            self.marks.put_all([(pair[0], int(pair[2])) for pair in argument.split(",")])
            self.log.add_all(["and", "so on"])
        elif command == "remove":
            self.marks.remove(argument)
        elif command == "get":
            yield f"{argument}: {self.marks.contains(argument)} {self.marks.get(argument)}"
        elif command == "clear":
            self.marks.clear()
            self.log.update(["cleared"])
        else:
            items = sorted(self.marks.items())
            keys, values = sorted(self.marks.keys()), sorted(self.marks.values())
            yield f"{ctx.get_current_key()} {items} {keys} {values} {self.marks.is_empty()} {list(self.log.get())}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    commands = env.from_collection(COMMANDS, Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()]))
    commands.key_by(lambda command: command[0], key_type=Types.STRING()).process(Obey(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
