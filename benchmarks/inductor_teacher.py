"""How many synthesised tasks does the Inductor teacher turn into a correct kernel, and what does it not convert?

    python benchmarks/inductor_teacher.py                              # 200 tasks in C++, the fused level of each
    python benchmarks/inductor_teacher.py --small --tasks 100 --json
    python benchmarks/inductor_teacher.py --dialect triton --small --tasks 50

Tasks come from one seed with the default dials, or with those of `tasks=graph_small`, as Triton's interpreter needs.
Verdicts come from the executor with its default distributions and hidden shapes. `not_converted` counts by reason.
"""

from __future__ import annotations

from teacher_figures import draw, judge, make_parser, show

from kernelrl.configs import compose_config
from kernelrl.data.teachers import make_teacher


def main() -> None:
    options = make_parser(__doc__).parse_args()
    drawn = draw(options)
    settings = compose_config("curate", ["teacher=inductor"]).teacher
    if not options.all_levels:
        settings.levels = {"fused": settings.levels.fused}
    teacher = make_teacher(settings, options.dialect)
    proposals = list(teacher.proposals(drawn, options.dialect))
    show(judge(drawn, proposals, options) | teacher.summary(), options)


if __name__ == "__main__":
    main()
