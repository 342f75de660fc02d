"""How many synthesised tasks does the template teacher write a correct kernel for, and how fast are its levels?

    python benchmarks/template_teacher.py                              # 200 tasks in C++, the fastest level of each
    python benchmarks/template_teacher.py --dialect triton --small
    python benchmarks/template_teacher.py --tasks 20 --all-levels --timing --json

Tasks come from one seed with the default dials, or with those of `tasks=graph_small`, as Triton's interpreter needs.
Verdicts come from the executor with its default distributions and hidden shapes.
"""

from __future__ import annotations

from omegaconf import DictConfig
from teacher_figures import draw, judge, make_parser, show

from kernelrl.data.teachers.template import make


def main() -> None:
    options = make_parser(__doc__).parse_args()
    drawn = draw(options)
    teacher = make(DictConfig({}))
    proposals = [
        (task, proposal)
        for task in drawn
        for proposal in teacher.propose(task, options.dialect)[: None if options.all_levels else 1]
    ]
    show(judge(drawn, proposals, options) | teacher.summary(), options)


if __name__ == "__main__":
    main()
