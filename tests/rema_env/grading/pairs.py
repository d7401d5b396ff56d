"""Golden answers, what was said in the box, and whether it should score: by kind, beside the rows of answer_pairs.jsonl."""

from __future__ import annotations

RIGHT: dict[str, list[tuple[str, str]]] = {
    "number": [
        ("73", "73"), ("73", "+73"), ("-73", "-73"), ("-73", "- 73"), ("73", "73.0"), ("73", "073"), ("007", "7"),
        ("0", "-0"), ("0", "0.00"), ("12", "12."), ("5", r"\mathbf{5}"), ("5", r"\text{5}"), ("5", "{5}"), ("5", "(5)"),
        ("5", "((5))"), ("5", r"\left(5\right)"), ("5", "--5"), ("123456789012345678901", "123,456,789,012,345,678,901"),
    ],
    "decimal": [
        ("0.5", ".5"), ("0.5", "0.50"), (r"\frac{1}{2}", "0.5"), ("0.5", r"\frac12"), (".35625", r"\frac{57}{160}"),
        (r"\frac{1}{3}", r"0.\overline{3}"), (r"\frac{1}{6}", r"0.1\overline{6}"), (r"\frac{1}{3}", r"0.\bar{3}"),
        ("3.10", "3.1"), ("1.5", r"1\frac{1}{2}"), ("-0.25", r"-\frac14"), ("2", r"1.\overline{9}"),
    ],
    "scientific": [
        (r"6.4 \times 10^{-3}", "0.0064"), (r"6.4 \times 10^{-3}", "6.4e-3"), (r"6.4 \times 10^{-3}", r"64 \times 10^{-4}"),
        (r"4.5 \times 10^{33}", "4.5e33"), (r"4.5 \times 10^{33}", r"4.5 \cdot 10^{33}"), (r"8.7 \times 10^{8}", "870000000"),
        (r"8.7 \times 10^{8}", "870,000,000"), ("0.0064", r"6.4\times10^{-3}"), (r"3 \times 10^{6}", "3*10^6"),
        (r"3 \times 10^{6}", "3E6"), (r"1 \times 10^{-5}", "10^{-5}"),
    ],
    "thousands": [
        ("48250", "48,250"), ("48250", "48{,}250"), ("48250", r"48\,250"), ("48250", r"48,\!250"), ("48250", "48 250"),
        ("58,500", "58500"), (r"10,\!080", "10080"), (r"10,\!080", "10,080"), (r"11,\! 111,\! 111,\! 100", "11111111100"),
        ("1234567.5", "1,234,567.5"), (r"2{,}016{,}532", "2016532"), ("-48250", "-48,250"), (r"\$32,\!348", "32348"),
        (r"\dfrac{1}{29,\!322,\!216}", r"\frac{1}{29322216}"), (r"\dfrac{2469}{20,\!000}", r"\frac{2469}{20000}"),
        ("100,200", "100200"), ("1000000", r"1\,000\,000"), ("100, 200, 300", "100,200,300"),
    ],
    "fraction": [
        (r"\frac{9}{14}", r"\dfrac{9}{14}"), (r"\frac{9}{14}", "9/14"), (r"\frac{9}{14}", r"\frac9{14}"), (r"\frac43", r"\frac{4}{3}"),
        (r"\frac{9}{14}", r"\frac 9 {14}"), (r"-\frac{5}{6}", "-5/6"), (r"-\frac{5}{6}", r"\frac{-5}{6}"),
        (r"-\frac{5}{6}", r"\dfrac{5}{-6}"), (r"\frac{1}{6}", r"\frac{\frac12}{3}"), (r"\frac{3}{4}", r"\frac{6}{8}"),
        (r"\frac{3}{4}", r"3 \div 4"), ("3/7", r"\frac{3}{7}"), (r"\frac{1}{8}", "2^{-3}"), (r"\frac{a}{b}", "a/b"),
        (r"\frac{11+9a}{20}", "(11+9a)/20"), (r"\frac{1}{2n+2}", r"\frac{1}{2(n+1)}"),
    ],
    "mixed": [
        (r"\frac{17}{5}", r"3\frac{2}{5}"), (r"\frac{17}{5}", "3 2/5"), (r"1\frac{4}{5}", r"\frac{9}{5}"), (r"1\frac45", "1.8"),
        (r"137 \frac{1}{2}", "137.5"), (r"-15\frac{3}{5}", "-15.6"), (r"-\frac{9}{4}", r"-2\frac14"), (r"\frac{7}{2}", "3½"),
        (r"6\frac{1}{6}\text{ feet}", r"6\frac16"), ("2.25", r"2 \tfrac{1}{4}"),
    ],
    "percent": [
        (r"28\%", "28%"), (r"28\%", r"28 \%"), (r"28\%", "28"), (r"28\%", r"28 \text{ percent}"), (r"28\%", "28 percent"),
        (r"28\%", "0.28"), ("35", r"35\%"), ("62.5%", r"62.5\%"), ("62.5%", "62.5"), (r"62.5\%", "0.625"), ("0.35", r"35\%"),
        (r"80 \%", r"80\%"), (r"28\%", r"\frac{7}{25}"), (r"28\%", r"28\text{ percent}"), (r"1.1\%", "1.10%"),
    ],
    "money": [
        (r"\$18.50", "18.50"), (r"\$18.50", "18.5"), (r"\$18.50", r"\$18.50"), ("18.50", r"18.50\text{ dollars}"),
        ("1250", r"\$1{,}250.00"), ("1250", "$1,250"), (r"\$36", r"36 \text{ dollars}"), (r"\$306,\!956.63", "306956.63"),
        ("-5", r"-\$5"), (r"5.4 \text{ cents}", "5.4"), (r"\$1", r"100 \text{ cents}"), ("18.50", "18.50 dollars"),
        (r"\$\dfrac23 \approx \$0.67", r"\frac{2}{3}"), (r"\$\dfrac23 \approx \$0.67", "0.67"), ("18.5", "€18.50"),
    ],
    "units": [
        (r"35 \text{ cm}^2", "35"), ("35", r"35 \text{ cm}^2"), ("35", "35 cm"), ("35", r"35\,\mathrm{cm}"), ("35", r"35\text{ square units}"),
        (r"864 \mbox{ inches}^2", r"864 \text{ square inches}"), (r"15\mbox{ cm}^2", r"15\text{ cm}^2"), ("12", r"12 \text{ apples}"),
        (r"35\text{ cm}", r"35\text{ centimeters}"), (r"1 \text{ m}", r"100\text{ cm}"), (r"20 $cm^{2}$", "20"), (r"22.1cm^{2}", "22.1"),
        (r"36\sqrt{7}cm^{3}", r"36\sqrt{7}"), ("60", r"60 \text{ miles per hour}"), ("9.8", r"9.8 \text{ m/s}^2"), ("12", "12 units"),
        (r"\frac{3}{4}\pi\text{ inches}", r"\frac{3\pi}{4}"), (r"18 \text{ integers}", "18"), (r"210\text{ ways}", r"210"),
        (r"12\sqrt{13}\text{ feet}", r"12\sqrt{13} \text{ ft}"), ("2", r"2 \text{ hours}"), (r"120 \text{ minutes}", r"2 \text{ hours}"),
    ],
    "degrees": [
        ("45", r"45^\circ"), (r"45^{\circ}", "45"), (r"45^\circ", r"45^{\circ}"), (r"45^\circ", "45°"), (r"45^\circ", r"45 \text{ degrees}"),
        (r"45^\circ", "45 degrees"), (r"\frac{270}7\text{ degrees}", r"\frac{270}{7}^\circ"), (r"\sin 30^\circ", r"\frac12"),
        (r"\frac{\sqrt{3}}{2}", r"\cos 30^\circ"), (r"\tan 45^{\circ}", "1"), (r"4^\circ, 20^\circ", "20, 4"), (r"18.8^{\circ}", "18.8"),
        (r"\cos 13^\circ", r"\sin 77^\circ"), ("20", r"20^\circ\text{C}"), (r"(45^{\circ}, 60^{\circ})", "(45, 60)"),
    ],
    "text": [
        (r"\text{Evelyn}", "Evelyn"), ("Evelyn", r"\text{Evelyn}"), (r"\text{east}", r"\text{East}"), (r"\text{even}", "even"),
        (r"\text{two lines}", r"\text{Two lines}"), ("Quadrant I", r"\text{Quadrant I}"), (r"\text{October 30}", "October 30"),
        (r"\text{ellipse}", r"\textbf{ellipse}"), (r"\text{Friday}", r"\mathrm{Friday}"), ("LQSX", r"\text{LQSX}"), ("LQSX", "L Q S X".replace(" ", "")),
        (r"\text{neither}", r"\text{neither.}"), (r"\mbox{four}", "4"), ("4", r"\text{four}"), ("I,II,III,IV", "I, II, III, IV"),
        (r"\text{Softball, Kickball, Picnic}", r"\text{Softball}, \text{Kickball}, \text{Picnic}"),
        (r"\text{a necessary but not a sufficient condition}", r"\text{A necessary but not a sufficient condition}"),
    ],
    "choice": [
        (r"\text{(C)}", "C"), (r"\text{(C)}", r"\text{C}"), ("C", r"\text{(C)}"), ("C", "(C)"), ("C", "c"), ("C", r"\textbf{(C)}"),
        ("C", r"\textbf{(C)}\ 12"), ("12", r"\textbf{(C)}\ 12"), ("A", r"\text{Response A}"), ("C", r"\text{Option C}"), ("C", "C."),
        ("C", r"\mathrm{C}"), (r"\text{A,B}", "A, B"), (r"\text{A, D, F, G, H}", "D, A, F, H, G"), ("A", r"\text{The answer is A}"),
        (r"\text{B,C}", r"\text{C and B}"), ("D", r"\text{(D) } \frac{1}{2}"), (r"(\text{H})", "H"),
    ],
    "judge": [
        (r"\text{Yes}", "Yes"), (r"\text{Yes}", "yes"), (r"\text{True}", r"\text{true}"), ("A", "A"), ("True", r"\textbf{True}"),
    ],
    "no solution": [
        (r"\emptyset", r"\varnothing"), (r"\emptyset", r"\{\}"), (r"\emptyset", r"\text{no solution}"), (r"\text{no solution}", r"\emptyset"),
        (r"\text{no solutions}", r"\text{There are no solutions}"), (r"\emptyset", "∅"), (r"\text{empty}", r"\emptyset"), (r"\text{none}", r"\text{None}"),
    ],
    "interval": [
        (r"(-\infty, 3)", r"(-\infty,3)"), (r"[2,\infty)", r"[2,+\infty)"), ("(2,5)", r"\left(2, 5\right)"), (r"(0.5, 2]", r"(\frac12, 2]"),
        (r"(-\infty,-2)\cup(2,\infty)", r"(2,\infty) \cup (-\infty,-2)"), ("x < 3", r"(-\infty, 3)"), ("(0, 12.5)", "0 < x < 12.5"),
        (r"(-\infty, 3)", "x<3"), (r"[-2,7]", r"-2 \le x \le 7"), (r"x \in [-2,7]", "[-2,7]"), (r"x \in [-2,7]", r"-2 \leq x \leq 7"),
        (r"(-\infty,-2)\cup(2,\infty)", r"x<-2 \text{ or } x>2"), (r"(-\infty,-2)\cup(2,\infty)", "|x| > 2"), ("(-3,3)", "|x|<3"),
        (r"\{x|-2\leq x < 1\}", "[-2,1)"), (r"\{x \mid x > 3\}", r"(3, \infty)"), (r"(-\infty,3)\cup(3,\infty)", r"x \ne 3"),
        (r"(-\infty,\infty)", r"\mathbb{R}"), (r"[4,\infty)", r"4 \le x"), (r"(0,9) \cup (9,36)", r"(9, 36) \cup (0, 9)"),
        (r"(-\infty, 0) \cup\{1\}", r"\{1\} \cup (-\infty,0)"), (r"(1,3)", r"1 < x \text{ and } x < 3"), (r"[5,5 \sqrt{2}]", r"[5, \sqrt{50}]"),
        (r"(-\infty,5]", r"(-\infty,2] \cup [1,5]"), ("-3<x<4", "(-3,4)"), ("-3<x<4", "4 > x > -3"), (r"k \geqslant 2", r"k \ge 2"),
        (r"k \geqslant 2", r"2 \le k"), (r"(-\infty, -\frac{1}{2})", r"x < -0.5"), (r"\left[ \frac{\pi}{4}, \frac{3 \pi}{4} \right]", r"[\pi/4, 3\pi/4]"),
    ],
    "set": [
        (r"\{1, 4, 9\}", r"\{9, 1, 4\}"), (r"\{1,4\}", r"\{1,4,4\}"), (r"\{3, 7\}", "3, 7"), ("3, 7", r"\{7, 3\}"), ("7", r"\{7\}"), (r"\{-2\}", "-2"),
        (r"\{1\pm\sqrt{5},-2\}", r"\{-2, 1-\sqrt{5}, 1+\sqrt{5}\}"), (r"\{0,2,4,6,8\}", r"\left\{0, 2, 4, 6, 8\right\}"),
        (r"\{1,3,5\}", r"\lbrace 5,3,1\rbrace"), (r"\{\frac12, 2\}", r"\{2, 0.5\}"),
    ],
    "list": [
        ("2, 5", "5, 2"), ("2, 5", r"2 \text{ and } 5"), ("2, 5", r"2 \text{ or } 5"), ("2, 5", "x=2, x=5"), ("2, 5", r"x = 5 \text{ or } x = 2"),
        ("2, 5", r"x = 2, 5"), ("n=2, 3, 4", "2, 3, 4"), ("n=2, 3, 4", "n = 4, 3, 2"), (r"2, 3, \text{ and } 4", "2,3,4"), ("1,-2", "-2, 1"),
        (r"12\text{ and }13", "12, 13"), (r"$2$ or $-2$ or $\frac{1}{2}$ or $-\frac{1}{2}$", r"\pm 2, \pm\frac12"), ("$48$, $384$", "48, 384"),
        (r"1, 2, \ldots, n", r"1, 2, \dots, n"), ("-2,-2", "-2, -2"), ("2, 5", "2; 5"), (r"\frac{3}{4}, -\frac{3}{4}", r"\pm 0.75"),
        (r"f(x)=x,f(x)=2-x", r"f(x) = 2-x, f(x) = x"), ("E_{1},E_{2}", "E_1, E_2"), ("x=3, y=4", "y = 4, x = 3"), ("AB=9, CD=4", "AB = 9, CD = 4"),
        (r"1+\sqrt 2,\ 1-\sqrt 2,\ 2+\sqrt 3,\ 2-\sqrt 3", r"1 \pm \sqrt{2}, 2 \pm \sqrt{3}"), (r"3i,-3i", r"\pm 3i"),
    ],
    "tuple": [
        ("(3, 7)", "(3,7)"), ("(3, 7)", r"\left( 3, 7 \right)"), ("(3,7)", r"(x,y)=(3,7)"), ("(3,7)", "x=3, y=7"), ("(3,7)", r"\langle 3, 7 \rangle"),
        (r"(\frac12, 2)", "(0.5, 2)"), ("(1,-2),(3,4)", "(3,4),(1,-2)"), ("(1,-2),(3,4)", r"\{(1,-2),(3,4)\}"), ("(1,-2),(3,4)", r"(3,4) \text{ and } (1,-2)"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"), ("(100,101)", "(100, 101)"), ("(-4, 27);(2, 15)", "(2,15), (-4,27)"),
        (r"(\frac{7}{2}, -13)", r"\left(3.5, -13\right)"), (r"\quad(2+\sqrt{2}, 1+\sqrt{2})", r"(2+\sqrt2,1+\sqrt2)"), ("(3,7)", "((3,7))"),
    ],
    "matrix": [
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
        (r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}", r"\begin{pmatrix} -\frac{1}{3} \\ \frac{2}{3} \\ \frac{5}{3} \end{pmatrix}"),
        (r"\begin{pmatrix}6\\3\end{pmatrix}", r"\begin{pmatrix} 6 \\ 3 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 & -1 \\ 1 & \phantom -1 \end{pmatrix}", r"\begin{pmatrix} 1 & -1 \\ 1 & -1 \end{pmatrix}"),
        (r"\begin{pmatrix}6\\3\end{pmatrix}", "(6, 3)"), (r"\begin{pmatrix} 4 \\ 0 \end{pmatrix}", r"\left(\begin{matrix} 4 \\ 0 \end{matrix}\right)"),
    ],
    "algebra": [
        ("x^2+5x+6", "6+5x+x^2"), ("x^2+5x+6", "(x+2)(x+3)"), ("(a+5)(b+2)", "ab+2a+5b+10"), ("a_1+a_2", "a_2+a_1"), ("a_1", "a_{1}"), ("2k+2", "2(k+1)"),
        (r"\frac{x^2-1}{x-1}", "x+1"), ("p - q", "-q+p"), ("6r^2-4r-24", r"6r^{2} - 4r - 24"), ("xy", "yx"), ("2ab", "2ba"), (r"5x - 7y + 11z + 4 = 0", "5x-7y+11z=-4"),
        (r"(x^2 + 1)(x^2 - 4x + 13)", r"(x^2-4x+13)(x^2+1)"), (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}"), (r"\sin^2 t", r"1-\cos^2 t"), (r"\sin^2 t", r"(\sin t)^2"),
        (r"\cot x", r"\frac{\cos x}{\sin x}"), (r"2 \sec x", r"\frac{2}{\cos x}"), (r"3^x - 2^x", r"-2^x+3^x"), (r"2^{n - 1}", r"\frac{2^n}{2}"),
        (r"\frac{1}{2}(\exp{a*t} - \exp{-a*t})", r"\frac{e^{at}-e^{-at}}{2}"), (r"\binom{2n}{n}", r"\frac{(2n)!}{(n!)^2}"), (r"\left\lfloor\log _{2} n\right\rfloor+1", r"1+\lfloor \log_2 n \rfloor"),
        (r"\frac{e^{-2 t}}{15}+C_{1} e^{t}", r"C_1 e^t + \frac{1}{15}e^{-2t}"), (r"(1 - 3e^{-2t} + 2e^{-5t}) u(t)", r"u(t)(1-3e^{-2t}+2e^{-5t})"), (r"-\tau \ln \Delta", r"\tau \ln(1/\Delta)"),
        (r"x_{0} \cos (\omega t)+\dot{x}_{0} \sin (\omega t) / \omega", r"\frac{\dot{x}_0}{\omega}\sin(\omega t) + x_0\cos(\omega t)"), ("42x\\sqrt{5x}", r"42\sqrt{5} x^{3/2}"),
    ],
    "radical": [
        (r"11\sqrt2", r"11 \sqrt{2}"), (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}"), (r"3\sqrt{13}", r"\sqrt{117}"), (r"\sqrt{4+2\sqrt{3}}", r"1+\sqrt{3}"), (r"\sqrt{50}", r"5\sqrt 2"),
        (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"), (r"\sqrt3", "√3"), (r"\sqrt{13}", "√13"), (r"\sqrt{3}", "sqrt(3)"), (r"2\sqrt{5}", "2sqrt(5)"), (r"\sqrt{3}", "3^{1/2}"), (r"\sqrt{3}", "3^{0.5}"),
        ("2", r"8^{1/3}"), ("7", r"\sqrt{49}"), ("-2", r"\sqrt[3]{-8}"), (r"8(\sqrt[10]{2^{7}})", r"8 \cdot 2^{7/10}"), (r"\frac{\sqrt6}3", r"\frac{\sqrt{6}}{3}"), (r"\frac{8}{\sqrt[3]{7}}", r"\frac{8 \sqrt[3]{49}}{7}"),
        (r"\frac{-1+\sqrt{5}}{4}", r"\sin 18^\circ"), (r"480 + 480\sqrt{3}\text{ feet}", r"480(1+\sqrt{3})"),
    ],
    "constants": [
        (r"9\pi", "9π"), (r"9\pi", r"\pi \cdot 9"), (r"\frac{\pi}{6}", r"\pi/6"), (r"\frac{640}{3}\pi", r"\frac{640\pi}{3}"), (r"1-\frac{1}{e}", "1-e^{-1}"), (r"e^{-1}", r"\frac1e"), ("9pi", r"9\pi"),
        (r"\log_2 5", r"\frac{\ln 5}{\ln 2}"), (r"\log_2 5", r"\frac{\log 5}{\log 2}"), ("2", r"\log_3 9"), (r"\ln 2", r"\log 2"), (r"\log_{10} 2", r"\log 2"), (r"2,-\log _{10} 250", r"-\log_{10} 250, 2"),
        (r"\frac{\log 2}{\log 2-\log 3}", r"\frac{\ln 2}{\ln 2 - \ln 3}"), ("2", r"\log_{10} 100"), ("2", r"\log 100"), (r"\ln 2", r"\log_e 2"), (r"\ln 6", r"\ln 2 + \ln 3"),
    ],
    "complex": [
        ("3+4i", "4i+3"), ("i", r"\sqrt{-1}"), ("-1", "i^2"), ("6-5i", r"6 - 5\mathrm{i}"), (r"1+\sqrt{3} i", r"1+i\sqrt3"), (r"\frac{3}{2} + \frac{3}{2} i", r"\frac{3+3i}{2}"), ("1-i", r"\frac{2}{1+i}"),
        ("-8-8\\sqrt{3}i", r"16 e^{-2\pi i/3}"), ("3+4i", "3+i4"), (r"\ln 2 + i\pi / 3", r"\ln 2 + \frac{\pi}{3} i"),
    ],
    "plus-minus": [
        (r"\pm 6", "6, -6"), (r"\pm 6", r"-6 \text{ and } 6"), ("6,-6", r"\pm 6"), (r"2\pm\sqrt{3}", r"2-\sqrt3, 2+\sqrt3"), (r"1 \pm \sqrt{19}", r"1\pm\sqrt{19}"), (r"x = \pm 6", r"\pm 6"), (r"\pm 6", r"x = 6 \text{ or } x=-6"),
        (r"\pm 6", "±6"), (r"3 \pm 2 \sqrt{2}", r"3 \mp 2\sqrt{2}"), (r"\frac{1 \pm \sqrt{5}}{2}", r"\frac{1+\sqrt5}{2}, \frac{1-\sqrt5}{2}"),
    ],
    "combinatorics": [
        (r"\binom{10}{3}", "120"), ("120", r"\binom{10}{3}"), ("120", "5!"), ("5040", "7!"), ("100!", "100!"), (r"C_{400}^{40} \cdot C_{200}^{20}", r"\binom{400}{40}\binom{200}{20}"), (r"\frac{100!}{2^{50}}", r"100!/2^{50}"),
        ("6", r"\gcd(12,18)"), ("36", r"\text{lcm}(12,18)"), ("36", r"\operatorname{lcm}(12,18)"), (r"\frac{d !}{2 k(d-k) !}", r"\frac{d!}{2k (d-k)!}"), ("15", "5!!"), (r"12\times18\times11", "2376"), ("3", r"\max(1,3)"),
    ],
    "arithmetic": [
        ("3", "|-3|"), ("3", r"\lfloor 3.7 \rfloor"), ("4", r"\lceil 3.2 \rceil"), ("12", "3×4"), ("12", r"3 \cdot 4"), ("5", "2+3"), ("3", r"\frac{6}{2}"), ("0", "x-x"), ("3", r"3 + 0\cdot x"), ("10", r"\sum_{k=1}^{4} k"), ("24", r"\prod_{k=1}^{4} k"),
        ("2", r"17 \bmod 5"), ("1024", "2^{10}"), ("1024", "2^10"), ("1024", "2**10"), ("16", "4²"), (r"\frac{n(n+1)}{2}", r"\sum_{k=1}^{n} k"), (r"2021 \cdot 505 \cdot 337", "343943885"),
    ],
    "equation": [
        ("x=5", "5"), ("5", "x=5"), ("5", "5 = x"), ("x=5", "x = 5"), ("y=2x+3", "y = 3+2x"), ("y=2x+3", "2x+3"), ("f(x)=x^2+1", "x^2+1"), ("x^2+1", "f(x)=x^2+1"), ("y=2x+3", "2x-y+3=0"), ("2x+4y-3=0", r"y = -\frac12 x+\frac34"), ("2x+4y-3=0", "4x+8y=6"),
        ("x^2+y^2=25", "y^2=25-x^2"), (r"\frac{x^2}{9}+\frac{y^2}{5}=1", "5x^2+9y^2=45"), ("5", "2+3=5"), ("5", "x=2+3=5"), (r"35", r"\text{Area} = 35"), ("k=n+1", "n+1"), (r"r=1+\sqrt{\frac{q}{s}}", r"1+\sqrt{q/s}"), ("12", r"AB = 12"),
        (r"C=\frac{def}{de+df+ef}", r"\frac{def}{ef+df+de}"), (r"m_{\max }=n^{2}-n-1", "n^2-n-1"), ("MR=SRMC", "SRMC = MR"), (r"y^{\prime}+r y-r x(t)=0", r"y' + ry = rx(t)"), ("x=9", "x=9.0"), ("f(x)=x+22", "f(x)=22+x"), ("y=2x+3", "f(x)=2x+3"),
        (r"\sqrt{2}", r"\sqrt{2} \approx 1.414"), ("8.24", r"\approx 8.24"), (r"p(x)=\frac{(x-1)(x-2)}{6}", r"p(x) = \frac{x^2-3x+2}{6}"), ("N=n", "n"), ("x=5", "x=2+3=5"), (r"\frac{d x}{d t}=k x-a", r"\frac{dx}{dt} = kx - a"),
    ],
    "base": [
        ("52_8", "52_{8}"), ("52_8", "52"), (r"4210_{5}", "4210_5"), (r"\text{A5}_{11}", "A5_{11}"), ("-37_8", "-37_{8}"), ("24_{10}", "24"), (r"52_8", r"52_{\text{eight}}"), (r"52_8", r"52_\text{8}"), ("0.0011_{2}", "0.0011_2"), ("42", "52_8"), ("52_8", "(52)_8"),
    ],
    "ratio": [("3:4", "3 : 4"), ("3:4", r"3\!:\!4"), ("1:2:3", "1 : 2 : 3"), ("3:4", r"\frac{3}{4}"), ("3:4", "3/4")],
    "time": [
        (r"\text{4:30 p.m.}", "4:30 pm"), (r"\text{4:30 p.m.}", r"4:30 \text{ PM}"), (r"\text{4:30 p.m.}", "4:30"), ("5am", r"5 \text{ a.m.}"), ("5am", "5:00 am"), (r"8\!:\!34 \text{ p.m.}", "8:34 p.m."), ("1:58 am", r"1:58\text{ AM}"), (r"05\!:\!00", "5:00"),
    ],
    "residue": [
        (r"7 \pmod{11}", "7"), (r"7 \pmod{11}", r"7 \pmod{11}"), ("7", r"7 \pmod{11}"), (r"x \equiv 7 \pmod{11}", r"x \equiv 18 \pmod{11}"), (r"7 \pmod{11}", r"7 \mod 11"), (r"x \equiv 7 \pmod{11}", r"7 \pmod{11}"), (r"7 \pmod{11}", r"18 \pmod{11}"),
    ],
    "tiny and big": [
        (r"\frac{1}{2^{99}}", "2^{-99}"), (r"\frac{1}{2004!}", r"\frac{1}{2004!}"), (r"\left(\frac{1}{6}\right)^{30}", r"\frac{1}{6^{30}}"), ("2^{2024}", r"4^{1012}"), ("10^{-20}", r"\frac{1}{10^{20}}"), ("2^{4950}", r"4^{2475}"), ("$10^{100}$,$10^{1 / 100}$", r"10^{0.01}, 10^{100}"),
        (r"\frac{1}{2004!}", r"\frac{2005}{2005!}"), (r"2^{100} - 2", r"2(2^{99}-1)"),
    ],
    "unicode": [
        ("41", "４１"), ("-5", "–5"), ("-5", "−5"), (r"\frac{1}{2}", "½"), (r"\frac{1}{3}", "⅓"), ("41", "4\u200b1"), ("41", "41\u00a0"), (r"x\le 4", "x ≤ 4"), ("x^2+1", "x²+1"), ("a_1", "a₁"), (r"\infty", "∞"), (r"(-\infty,3)", "(−∞,3)"), (r"\{1,2\}", "｛1,2｝"),
        (r"28\%", "28％"), ("(1,2)", "（1，2）"), (r"2\pi", "2𝜋"), (r"(0,1)\cup(1,2)", "(0,1)∪(1,2)"), ("41", "𝟒𝟏"), (r"\theta", "θ"), ("10^{-3}", "10⁻³"),
    ],
    "layout": [
        ("41", r"\displaystyle 41"), ("41", r"41\,"), ("41", "~41"), ("41", "$41$"), ("41", "41."), (r"\frac{3}{4}", r"\frac{3}{4}."), ("41", r"\(41\)"), ("41", r"\text{The answer is } 41"), ("41", r"\text{Answer: } 41"), ("41", "41,"), (r"\frac{3}{4}", r"\left.\frac{3}{4}\right."),
        (r"\frac{3}{4}", r"\\frac{3}{4}"), ("41", r"\large 41".replace(r"\large ", "")), ("41", r"\boxed{41}"), ("41", r"\mathbf{41}"), ("41", r"\quad 41"), ("41", r"\;41\;"), ("x+1", r"x\,+\,1"), ("41", "=41"), ("41", r"\underline{41}"),
    ],
    "foreign notation": [(r"\int_0^1 2x dx", "1"), (r"\lim_{x \to 0} \frac{\sin x}{x}", "1")],
}  # fmt: skip

WRONG: dict[str, list[tuple[str, str]]] = {
    "number": [
        ("73", "-73"), ("73", "37"), ("73", "730"), ("73", "73.1"), ("007", "70"), ("73", "7 3"), ("5", "5x"), ("0", "10^{-20}"), ("123456789012345678901", "123456789012345678902"), ("1000000.5", "1000000.4"), ("12", "1 2"), ("41", "4 1"),
    ],
    "decimal": [
        ("3.14", "3.14159"), ("3.14", r"\pi"), (r"0.\overline{36}", "0.36"), (r"\frac{1}{3}", "0.333"), (r"\frac13", "0.333333333333"), (r"\sqrt{2}", "1.414214"), (r"\pi", "3.14"), ("3.5", "3,5"), (r"\frac{2}{3}", "0.67"), ("0.3", r"0.\overline{3}"), (r"\pi", r"\frac{22}{7}"),
    ],
    "scientific": [(r"6.4 \times 10^{-3}", "0.064"), (r"4.5 \times 10^{33}", r"4.5 \times 10^{32}"), (r"5\times 10^{-19}", r"3\times 10^{-19}"), (r"3 \times 10^{6}", "3e5"), (r"8.7 \times 10^{8}", r"8.71 \times 10^{8}")],
    "thousands": [
        ("1,234", r"\{1, 234\}"), ("1,234", "1, 234"), ("298", r"48\,250"), ("1,000,000", "1,000"), ("48250", "48,25"), ("48250", "4,8250"), ("48.25", "48,250"), ("1234", "1,2,3,4"), ("1,234", "1.234"), ("(1,234)", "1234"),
    ],
    "fraction": [(r"\frac{3}{4}", r"\frac{4}{3}"), (r"-\frac{5}{6}", r"\frac{5}{6}"), (r"\frac{3}{4}", "3"), (r"\frac{3}{4}", "34"), (r"\frac{3}{4}", "3,4"), ("3", r"\frac{1}{0}"), (r"\frac{1}{2n+2}", r"\frac{1}{2n}+2")],
    "mixed": [(r"\frac{6}{5}", r"3\frac{2}{5}"), (r"-\frac{7}{4}", r"-2\frac{1}{4}"), ("3", r"3\frac{1}{2}"), (r"\frac{17}{5}", r"3 \cdot \frac{2}{5}"), ("32/5", "3 2/5")],
    "percent": [(r"28\%", r"82\%"), (r"28\%", r"2.8\%"), (r"28\%", "2800"), (r"28\%", r"0.28\%"), (r"28\%", "0.0028")],
    "money": [(r"\$18.50", "18.05"), (r"\$18.50", "1850"), (r"\$1", r"1 \text{ cent}"), ("1250", r"\$12.50")],
    "units": [(r"35\text{ cm}", r"35\text{ m}"), (r"35 \text{ cm}^2", r"35 \text{ cm}^3"), (r"35 \text{ cm}^2", r"35 \text{ cm}"), ("3", r"3 \text{ million}"), ("5", r"5 \text{ or more}"), ("5", r"5 \text{ dozen}"), ("5", r"\text{less than } 5"), (r"2 \text{ hours}", r"2 \text{ minutes}"), ("3", r"3 \text{ half}"), ("35", "35m")],
    "degrees": [(r"45^\circ", r"\frac{\pi}{4}"), (r"45^\circ", r"54^\circ"), (r"\sin 30^\circ", r"\sin 30"), (r"45^\circ", r"45 \text{ radians}"), (r"\cos 13^\circ", r"\cos 13")],
    "text": [
        (r"\text{Evelyn}", r"\text{Evan}"), (r"\text{even}", r"\text{neither even nor odd}"), (r"\text{even}", r"\text{uneven}"), (r"\text{east}", r"\text{northeast}"), (r"\text{Evelyn}", r"\text{Evelyn or Evan}"), (r"\text{Evelyn}", r"\text{not Evelyn}"), (r"\text{even}", "7"), ("7", r"\text{even}"), (r"\mbox{four}", "5"),
        (r"\text{Softball, Kickball, Picnic}", r"\text{Picnic, Kickball, Softball}"), (r"\text{Evelyn}", ""), (r"\text{May}", r"\text{Maybe}"), ("Quadrant I", "Quadrant II"), (r"\text{October 30}", r"\text{October 31}"),
    ],
    "choice": [
        ("A", "B"), ("A", r"\text{A or B}"), ("A", "A, B"), ("A", r"\text{A and B}"), ("A", "AB"), ("A", r"A \text{ or } B"), (r"\text{(C)}", r"\text{(C) or (D)}"), (r"\text{(C)}", "(C)(D)"), ("A", r"\text{not A}"), (r"\text{A,B}", "A"), ("A", r"\text{A,B,C,D,E}"), (r"\text{A,B}", "A, C"), ("C", r"\textbf{(C)}\ 12 \text{ or (D)}"), ("A", r"\text{Apple}"), ("12", r"\textbf{(C)}\ 13"),
        ("C", r"\textbf{(D)}\ 12"), ("C", "(C), (D)"),
    ],
    "judge": [(r"\text{Yes}", r"\text{No}"), (r"\text{No}", r"\text{Not correct}"), (r"\text{True}", r"\text{False}"), (r"\text{Yes}", r"\text{Yes and No}"), ("True", r"\text{True or False}")],
    "no solution": [(r"\emptyset", r"\{0\}"), (r"\emptyset", "0"), ("0", r"\emptyset"), ("5", r"\text{no solution}"), (r"\text{no solution}", "5"), (r"\emptyset", r"\{\emptyset\}")],
    "interval": [
        ("[2, 5)", "(2, 5]"), ("(2,5)", "[2,5]"), ("(2,5)", "(5,2)"), ("(0,9)\\cup(9,36)", "(0,36)"), ("[3, 7]", r"\{3, 7\}"), ("x > 3", "x < 3"), ("x > 3", r"x \ge 3"), ("x > 3", "3"), ("3", "x > 3"), ("(-\\infty, 3)", "(-3, \\infty)"), (r"(-\infty, 3)", r"(-\infty, 3]"), ("x>3", "y>3"), ("(2,5)", "2, 5"), (r"(2,\infty)", "(2,5)"), ("7", "[0, 10]"), ("7", r"(-\infty, \infty)"),
        (r"(-\infty,-2)\cup(2,\infty)", "(-2,2)"), (r"(-\infty,-2)\cup(2,\infty)", "|x|<2"), (r"(-\infty,3)\cup(3,\infty)", r"\mathbb{R}"), ("[0,1]", "0<x<1"), ("-3<x<4", "-3<x<=4"), ("b > a > c", "b > c > a"), (r"[2,5)", r"2 < x < 5"), (r"\{x|-2\leq x < 1\}", "[-2,1]"), (r"(1,2)\cup(3,4)", "(1,4)"), (r"[2,\infty)", r"[2,\infty]".replace("]", ")") + r"\cup\{1\}"),
    ],
    "set": [(r"\{1, 4, 9\}", r"\{1, 4\}"), (r"\{1, 4\}", r"\{1, 4, 9\}"), (r"\{1,4\}", "(1,4)"), (r"\{1,4\}", "[1,4]"), ("1", r"\{1,4\}"), (r"\{7\}", r"\{7, 8\}"), (r"\{1,4\}", "1")],
    "list": [
        ("5", "2, 5"), ("5", "5, 2"), ("2, 5", "5"), ("2, 5", "2, 5, 7"), ("2, 5", "2, 2, 5"), ("n=2, 3, 4", "n=1, 2, 3"), (r"1, 2, \ldots, n", r"1, 3, 5, \ldots, 2n-1"), ("5", "x=5, y=7"), ("x=3, y=4", "x=4, y=3"), ("x=3, y=4", "y=3, x=4"), ("-2,-2", "-2"), ("2,5", "2.5"), ("7", r"7 \text{ or } 9"), ("7", r"9 \text{ or } 7"), ("7", "7, 9"), ("7", r"7 \text{ and } 9"),
        ("2, 5", "25"), ("1,2,3", "1,2,4"), ("2, 5", r"2 \text{ or } 6"), ("7", "7; 9"), ("7", "7 or 9"), ("AB=9, CD=4", "AB = 4, CD = 9"), ("2, 5", "(2, 5)"), ("7", "7, 7"), ("1, 2, 3", "1, 2, 3, 4, 5"), ("x=2, x=5", "x=2, y=5"),
    ],
    "tuple": [
        ("(3, 7)", "(7, 3)"), ("(3, 7)", "[3, 7]"), ("(3, 7)", r"\{3, 7\}"), ("(3,7)", "(3,7,1)"), ("(3,7)", "(3,-7)"), ("(3,7)", "37"), ("(3,7)", "x=7, y=3"), ("(1,-2),(3,4)", "(1,4),(3,-2)"), ("(1,-2),(3,4)", "(1,-2)"), ("(1,-2)", "(1,-2),(3,4)"), ("3", "(3,7)"), ("(100,101)", "100101"), ("(3,7)", "10"), ("(2,3,4)", "(2,4,3)"),
    ],
    "matrix": [
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}"), (r"\begin{pmatrix} 2 \\ -5 \end{pmatrix}", r"\begin{pmatrix} 2 & -5 \end{pmatrix}"), (r"\begin{pmatrix} 2 \\ -5 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 5 \end{pmatrix}"), (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "-2"), ("3", r"\begin{pmatrix} 3 \\ 3 \end{pmatrix}"), (r"\begin{pmatrix} 6 \\ 3 \end{pmatrix}", "(3, 6)"),
    ],
    "algebra": [
        ("x^2+5x+6", "x^2+5x-6"), ("k^2+1", "n^2+1"), ("x_1", "x_2"), ("x_1", "x"), ("x", "X"), ("2x", "x^2"), ("x^2+5x+6", "0"), ("x+1", "x+1.0000001"), (r"\sqrt{x^2}", "x"), ("2^n", "n^2"), (r"\frac{n}{2}", r"\lfloor \frac{n}{2} \rfloor"), ("x", "1"), ("1", "x"), ("7", "x"), ("p-q", "q-p"), ("a+b", "ab"), ("I(0)", "0"), (r"I(0) e^{-\frac{t}{R C}}", "0"), ("f(x)", "f(y)"), (r"\cot x", r"\tan x"), (r"\sin 3x", r"3\sin x"), ("x^2+5x+6", "(x+1)(x+6)"), (r"\Gamma", r"\gamma"), ("x+10^{-30}", "x"),
        (r"\sin^2 t", r"\sin t^2"), ("2k", "2k+1"), ("C_1", "C_2"), (r"m n-\lfloor m / 2\rfloor", r"mn - \frac{m}{2}"),
    ],
    "radical": [(r"\sqrt[3]{5}", r"\sqrt{5}"), ("4", r"4\sqrt(2)"), (r"\sqrt{2}", "2"), (r"\sqrt{2}", r"-\sqrt{2}"), (r"\sqrt{2}", r"\pm\sqrt{2}"), (r"\frac{\sqrt{2}}{2}", r"\frac{\sqrt{2}}{3}"), ("2", r"\sqrt{2}"), (r"1+\sqrt{3}", r"\sqrt{4+2\sqrt{2}}"), (r"\sqrt{10^{20}+1}", "10^{10}"), (r"\sqrt{3}", "1.7320508075688772935274463415")],
    "constants": [(r"9\pi", "9"), (r"\pi", r"\pi+10^{-100}"), ("2", r"\log_e 2"), (r"\ln 2", r"\log_{10} 2"), (r"\log_2 5", r"\log_5 2"), (r"e", "2.718281828459045"), ("20", r"e^\pi-\pi"), ("262537412640768744", r"e^{\pi\sqrt{163}}"), (r"\log_{10} 2", r"\ln 2")],
    "complex": [("3+4i", "3-4i"), ("3+4i", "4+3i"), ("5", "3+4i"), ("i", "-i"), ("i", "1"), ("-1", "i"), ("3+4i", "7")],
    "plus-minus": [(r"\pm 6", "6"), ("6", r"\pm 6"), (r"\pm 6", "-6"), (r"2\pm\sqrt{3}", r"2+\sqrt{3}"), ("7", r"\pm 7"), (r"1 \pm \sqrt{19}", r"1 \pm \sqrt{18}"), ("6", r"x = \pm 6")],
    "combinatorics": [("100!", "99!"), (r"\binom{10}{3}", r"\binom{10}{4}"), (r"\frac{1}{2004!}", r"\frac{1}{2006!}"), (r"\frac{1}{2004!}", "0"), ("120", "6!"), ("100!", "100"), ("720", "3!!")],
    "equation": [
        ("5", "3=5"), ("5", "5=5"), ("5", "x=6"), ("x=5", "x=6"), ("x=5", "y=5"), ("y=2x+3", "y=2x-3"), ("y=2x+3", "x=2y+3"), ("3x-y+13=0", "3x+4y+14=0"), ("x^2+y^2=25", "x^2+y^2=5"), ("5", r"x \neq 5"), ("7", "x = x"), ("7", "7 = 7 = 7"), ("7", r"9 \neq 7"), ("7", "9 > 7"), ("7", r"9 \Rightarrow 7"), ("7", "x > 7"), ("7", "x = 9 = 7"), ("7", "7 = 9"), ("7", "9 = 7"), ("7", "0=0"), ("x=5", "5=5"),
        (r"F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1}", r"F_n = \sum_{k=0}^{n-2} F_k F_{n-k-2}"), ("7", r"7 \approx 9"), ("7", r"9 \approx 7"), ("y=2x+3", "3"), ("2x+4y-3=0", "0=0"), ("2x+4y-3=0", "x=x"), ("y=2x+3", "y=y"), ("x+y=3", "x=3"), (r"y = 2x", "y = 2x + 10^{-9}"), ("x=5", "x=5, x=7"), ("7", r"7 \in \{1,7\}"), ("7", r"x \in \{1,7\}"), ("7", r"1 < 7"), (r"\sqrt{2}", r"1.41 \approx \sqrt{2}"), ("MR=SRMC", "MR=LRMC"), ("7", "7 = x = 9"),
    ],
    "base": [("52_8", "52_9"), ("52_8", "42"), ("52_8", "53_8"), ("52", "53_8"), ("52_8", "52_{16}"), ("101_2", "101_3"), ("40_9", "4_9"), (r"\text{A5}_{11}", "A6_{11}")],
    "ratio": [("3:4", "3:5"), ("3:4", "4:3"), ("12:30", "1:30"), ("3:4", "3"), ("3:4", "34"), ("12:30", "4:10"), ("3:4", "3,4"), ("3:4", r"\frac{4}{3}")],
    "time": [(r"\text{4:30 p.m.}", "4:30 a.m."), (r"\text{4:30 p.m.}", "5:30 p.m."), ("5am", "5pm"), ("5am", "6am"), ("1:58 am", "1:59 am")],
    "residue": [(r"7 \pmod{11}", "8"), (r"x \equiv 7 \pmod{11}", r"x \equiv 8 \pmod{11}"), (r"7 \pmod{11}", r"7 \pmod{12}"), (r"7 \pmod{11}", "18"), (r"x \equiv 7 \pmod{11}", r"y \equiv 7 \pmod{11}")],
    "tiny and big": [
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"), ("2^{2024}", "2^{2025}"), ("2^{2024}", "2^{2024}+1"), ("3", "3 + 10^{-12}"), ("1", r"\frac{10^{20}+1}{10^{20}}"), (r"\left(\frac{1}{6}\right)^{30}", r"\left(\frac{1}{6}\right)^{31}"), ("10^{-20}", "0"), ("2^{100000}", "2^{100000}+1"), ("2^{1000000}", "2^{1000000}+1"), ("0", "10^{-200}"), (r"\infty", r"-\infty"), ("3", r"\infty"), (r"\infty", "10^{100}"), ("10^{10^{10}}", r"10^{10^{10}}+1"), ("0", r"e^{-1000}"), (r"\pi", r"\pi(1+10^{-50})"),
    ],
    "stuffing": [
        ("7", r"7 \text{ (or maybe 9)}"), ("7", r"\text{maybe } 7"), ("7", r"7\text{ or so}"), ("7", r"7?9"), ("7", "7/9"), ("7", "6-8"), ("7", "6..8"), ("7", r"6 \text{ to } 8"), ("7", r"[7, 9]"), ("7", r"\{7, 9\}"), ("7", r"\{x\}"), ("7", r"\text{see above}"), ("7", r"\text{7 or 9}"), ("7", r"1,2,3,4,5,6,7,8,9"), ("7", r"\text{between 6 and 8}"), ("7", "7 | 9"), ("7", r"7 \cup 9"), ("7", r"7 \lor 9"), ("7", r"7 \text{ if } x > 0"), ("7", r"7 \text{ unless } 9"), ("7", r"\text{NaN}"), ("7", "nan"), ("7", r"7 \ne 9"), ("7", r"\text{not } 7"),
        ("7", r"\text{answer}"), ("7", "x=7 or x=9"), ("7", r"7 \quad 9"), ("7", r"7 \\ 9"), ("7", r"\begin{cases} 7 \\ 9 \end{cases}"), ("7", r"7 \text{, } 9"), ("7", r"\text{7}\text{9}"), ("7", r"7\;\;9"), ("7", r"7 \text{ (not 9)}"), ("7", r"7 \wedge 9"), ("7", "7&9"), ("7", r"\mathbb{R}"), ("7", r"\mathbb{N}"), ("7", r"\ldots, 6, 7, 8, \ldots"), ("7", r"\text{gold}"), ("7", r"\text{correct answer}"),
    ],
    "hostile": [
        ("3", "9**9**9**9"), ("3", "9^{9^{9^{9}}}"), ("3", "99999999!"), ("3", "((((9!)!)!)!)"), ("3", r"\binom{10^{9}}{5\cdot 10^{8}}"), ("3", r"\int_0^1 e^{x^{x^x}} dx"), ("3", r"1.3^{6472416997}"), ("3", r"\log_{32}(\log_{16}(\log_8(\log_4(2^{2^{2^{70}}}))))"), ("3", "\\sqrt{" * 300 + "3" + "}" * 300), ("3", "__import__('os').system('touch pwned')"), ("3", r"\input{/etc/passwd}"), ("3", "9" * 5000), ("3", "-" * 3000 + "4"), ("3", "3" + "!" * 300), ("3", "3" + "^3" * 300), ("3", "(" * 2000), ("3", "1/" * 500 + "3"),
        ("3", r"\sum_{k=1}^{10^{12}} k"), ("3", r"\prod_{k=1}^{499} k^{k^k}"), ("3", r"\frac{" * 400 + "3"), ("3", "3\x00"), ("3", "\ud8003"), ("3", "x" * 4000), ("3", "1e999999999"), ("3", "10^{10^{10^{10}}}-10^{10^{10^{10}}}+3"), ("3", "|" * 999), ("3", "0^0"), ("3", r"\frac{0}{0}"), ("3", r"\tan 90^\circ"), ("3", r"\lim_{n\to\infty} n"), ("3", "\\" * 4001), ("3", r"\dfrac{6^{\left(6^{\left(6^{\left(6^6\right)}\right)} - 4\right)} - 6}{16}"),
        ("3", r"\gcd(" + "10^{4000}," * 200 + "7)"), ("3", "+".join(["2^{4000}"] * 400)), ("3", r"\times".join(["1.5^{4000}"] * 300)), ("3", "2^{" * 49 + "2" + "}" * 49), ("3", r"\sum_{a=1}^{400}\sum_{b=1}^{400}\sum_{c=1}^{400} a"), ("3", r"(-1)^{1/2^{4000}}"), ("3", r"\sin(10^{4000})"), ("3", r"\zeta(3)"), ("3", "{3"),
    ],
    "unicode": [("4", "４²"), ("12", "1²"), ("41", "４２"), ("21", "2¹"), ("-5", "5–"), (r"\frac12", "⅓")],
}  # fmt: skip
