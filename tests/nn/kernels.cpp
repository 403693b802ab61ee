// The loops over rows: exp within the ulp that is promised, every instruction set alike, and each length of a row's
// end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <normplace/detail/kernels.hpp>
#include <normplace/placement/activation.hpp>

using namespace normplace::detail;

/// kernel(arguments) of this instruction set.
#if defined(__x86_64__)
#define KERNEL_OF(set, kernel, ...)                                \
    ((set) == InstructionSet::avx512 ? avx512::kernel(__VA_ARGS__) \
     : (set) == InstructionSet::avx2 ? avx2::kernel(__VA_ARGS__)   \
                                     : baseline::kernel(__VA_ARGS__))
#else
#define KERNEL_OF(set, kernel, ...) (static_cast<void>(set), baseline::kernel(__VA_ARGS__))
#endif

namespace {

/// The distance of `value` from `exact`, in units of the last place of T.
template <class T>
double ulps(T value, long double exact) {
    const T nearest = static_cast<T>(exact);
    const long double ulp = std::nextafter(nearest, std::numeric_limits<T>::infinity()) - nearest;
    return static_cast<double>(std::fabs((static_cast<long double>(value) - exact) / ulp));
}

template <class T>
struct Table {
    std::vector<T> x, y;
    T sum = 0;
};

template <class T>
Table<T> exp_of(std::vector<T> x, InstructionSet set) {
    Table<T> table{x, std::vector<T>(x.size()), 0};
    table.sum = KERNEL_OF(set, exp_row, x.data(), T(0), table.y.data(), x.size());
    return table;
}

std::vector<InstructionSet> instruction_sets() {
    std::vector<InstructionSet> sets{InstructionSet::baseline};
    if (instruction_set() >= InstructionSet::avx2) sets.push_back(InstructionSet::avx2);
    if (instruction_set() >= InstructionSet::avx512) sets.push_back(InstructionSet::avx512);
    return sets;
}

}  // namespace

TEST_CASE_TEMPLATE("exp is within 1.5 ulp wherever its result is a normal number", T, float, double) {
    const bool is_float = sizeof(T) == 4;
    const double lowest = is_float ? -87.3 : -708.3, highest = is_float ? 88.37 : 709.4;
    std::vector<T> x;
    constexpr std::size_t points = 200000;
    for (std::size_t i = 0; i <= points; ++i)
        x.push_back(static_cast<T>(lowest + (highest - lowest) * static_cast<double>(i) / points));
    for (int i = -1000; i <= 1000; ++i) x.push_back(static_cast<T>(i * 1e-3));
    for (const InstructionSet set : instruction_sets()) {
        const Table<T> table = exp_of(x, set);
        double worst = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i)
            worst = std::max(worst, ulps(table.y[i], std::exp(static_cast<long double>(x[i]))));
        CAPTURE(static_cast<int>(set));
        CHECK(worst < 1.5);
        CHECK(worst > 0.1);  // it has been measured
    }
}

TEST_CASE_TEMPLATE("exp has an answer for every number", T, float, double) {
    constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    for (const InstructionSet set : instruction_sets()) {
        const Table<T> table = exp_of<T>({-infinity, T(-1e30), T(-1000), T(0), T(-0.0), T(1000), infinity, nan}, set);
        CHECK(std::vector<T>(table.y.begin(), table.y.begin() + 7) ==
              std::vector<T>{0, 0, 0, 1, 1, infinity, infinity});
        CHECK(std::isnan(table.y[7]));
    }
}

TEST_CASE_TEMPLATE("where exp leaves the normal numbers it stays between 0 and the smallest", T, float, double) {
    const T first = static_cast<T>(std::log(static_cast<double>(std::numeric_limits<T>::min())));
    std::vector<T> x;
    for (int i = 1; i <= 1000; ++i) x.push_back(first - static_cast<T>(i) * T(1e-3));
    for (const InstructionSet set : instruction_sets())
        for (const T y : exp_of(x, set).y) {
            CHECK(y >= T(0));
            CHECK(y <= std::numeric_limits<T>::min());
        }
}

TEST_CASE_TEMPLATE("rows of every length, on every instruction set", T, float, double) {
    const double tolerance = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::size_t length = 0; length <= 70; ++length) {
        std::vector<T> x(length), y(length);
        double sum = 0.0, largest = -INFINITY;
        for (std::size_t i = 0; i < length; ++i) {
            x[i] = static_cast<T>(std::sin(static_cast<double>(7 * i + length)));
            sum += std::exp(static_cast<double>(x[i]));
            largest = std::max(largest, static_cast<double>(x[i]));
        }
        CAPTURE(length);
        for (const InstructionSet set : instruction_sets()) {
            const Table<T> table = exp_of(x, set);
            CHECK(static_cast<double>(table.sum) == doctest::Approx(sum).epsilon(tolerance));
        }
        CHECK(static_cast<double>(NORMPLACE_KERNEL(largest_of, x.data(), length)) == largest);
        NORMPLACE_KERNEL(softmax_rows, x.data(), y.data(), std::size_t{1}, length);
        double total = 0.0;
        for (const T v : y) total += static_cast<double>(v);
        if (length) CHECK(total == doctest::Approx(1.0).epsilon(tolerance));
    }
}

TEST_CASE_TEMPLATE("softmax of rows of every length, on every instruction set", T, float, double) {
    const double tolerance = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    constexpr std::size_t rows = 4;
    for (const InstructionSet set : instruction_sets())
        for (std::size_t columns = 1; columns <= 70; ++columns) {
            std::vector<T> x(rows * columns), y(rows * columns);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double largest = i / columns == 1 ? 1e4 : 0.0;  // a row's is not its neighbour's
                x[i] = static_cast<T>(largest + 4.0 * std::sin(static_cast<double>(7 * i + columns)));
            }
            if (columns > 1) x[2 * columns] = -infinity;
            x[4 * columns - 1] = nan;
            KERNEL_OF(set, softmax_rows, x.data(), y.data(), rows, columns);
            double worst = 0.0;
            for (std::size_t r = 0; r + 1 < rows; ++r) {
                const T *row = x.data() + r * columns, largest = *std::max_element(row, row + columns);
                double sum = 0.0;
                for (std::size_t c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(row[c] - largest));
                for (std::size_t c = 0; c < columns; ++c)
                    worst = std::max(worst, std::abs(static_cast<double>(y[r * columns + c]) -
                                                     std::exp(static_cast<double>(row[c] - largest)) / sum));
            }
            CAPTURE(static_cast<int>(set));
            CAPTURE(columns);
            CHECK(worst < tolerance);
            for (std::size_t c = 0; c < columns; ++c) CHECK(std::isnan(y[3 * columns + c]));
            KERNEL_OF(set, softmax_rows, x.data(), x.data(), rows, columns);  // in place
            CHECK(std::equal(y.begin(), y.end() - static_cast<std::ptrdiff_t>(columns), x.begin()));
        }
}

TEST_CASE_TEMPLATE("the rectifier and its gradient keep NaN and stop at 0", T, float, double) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (std::size_t length : {1, 5, 16, 37}) {
        std::vector<T> u(length), y(length), dy(length, T(3)), du(length);
        for (std::size_t i = 0; i < length; ++i) u[i] = static_cast<T>(i % 3) - T(1);
        u[length - 1] = nan;
        NORMPLACE_KERNEL(rectify, u.data(), y.data(), length);
        NORMPLACE_KERNEL(rectify_backward, y.data(), dy.data(), du.data(), length);
        for (std::size_t i = 0; i + 1 < length; ++i) {
            CHECK(y[i] == std::max(u[i], T(0)));
            CHECK(du[i] == (u[i] > T(0) ? T(3) : T(0)));
        }
        CHECK(std::isnan(y[length - 1]));
    }
}

TEST_CASE_TEMPLATE("sums of scaled rows, and of columns", T, float, double) {
    for (std::size_t width : {1, 4, 19, 64}) {
        const std::size_t rows = 7;
        std::vector<T> a(rows * width), b(rows * width), y(rows * width), sums(width, T(10));
        for (std::size_t i = 0; i < a.size(); ++i) {
            a[i] = static_cast<T>(i);
            b[i] = static_cast<T>(2 * i + 1);
        }
        const Term<T> terms[] = {{T(2), a.data()}, {T(-1), b.data()}};
        for (const InstructionSet set : instruction_sets()) {
            std::fill(y.begin(), y.end(), T(0));
            KERNEL_OF(set, combine, terms, std::size_t{2}, y.data(), std::size_t{1}, y.size() - 2);  // all but the ends
            std::vector<T> expected(y.size(), T(-1));
            expected.front() = expected.back() = T(0);
            CHECK(y == expected);
        }
        NORMPLACE_KERNEL(add_column_sums, a.data(), rows, width, sums.data(), std::size_t{0}, width);
        for (std::size_t c = 0; c < width; ++c)
            CHECK(static_cast<double>(sums[c]) ==
                  doctest::Approx(10.0 + 7.0 * static_cast<double>(c) + 21.0 * static_cast<double>(width)));
    }
}

TEST_CASE("GELU in float is that of double to a few units of the last place") {
    std::vector<float> u, y, dy, du;
    for (int i = -13000; i <= 13000; ++i) u.push_back(static_cast<float>(i) * 1e-3f);
    u.push_back(std::numeric_limits<float>::quiet_NaN());
    y.resize(u.size());
    du.resize(u.size());
    dy.assign(u.size(), 2.0f);
    for (const InstructionSet set : instruction_sets()) {
        CAPTURE(static_cast<int>(set));
        KERNEL_OF(set, gelu_rows, u.data(), y.data(), u.size());
        KERNEL_OF(set, gelu_backward_rows, u.data(), dy.data(), du.data(), u.size());
        double worst = 0.0, worst_derivative = 0.0;
        for (std::size_t i = 0; i + 1 < u.size(); ++i) {
            const double v = static_cast<double>(u[i]), value = normplace::gelu.value(v);
            // exp(-u^2/2) is off by u^2/2 roundings, which matters to the far tail alone.
            const double unit = (1.0 + 0.5 * v * v) * static_cast<double>(std::numeric_limits<float>::epsilon());
            worst = std::max(worst, std::abs(static_cast<double>(y[i]) - value) / (unit * std::abs(value) + 1e-37));
            worst_derivative =
                std::max(worst_derivative, std::abs(static_cast<double>(du[i]) - 2.0 * normplace::gelu.derivative(v)) /
                                               static_cast<double>(std::numeric_limits<float>::epsilon()));
        }
        CHECK(worst < 3.0);
        CHECK(worst_derivative < 4.0);
        CHECK(std::isnan(y.back()));
        CHECK(std::isnan(du.back()));
    }
}

namespace {

// Rows of every length from 1 to beyond two packs of the widest instruction set, at any place in memory, in place, and
// with the other terms of a sum, against the formula.
template <class T, RowNorm norm>
void check_norm_rows(InstructionSet set) {
    constexpr bool centred = norm != RowNorm::divided, divided = norm != RowNorm::centred;
    constexpr double tolerance = 4096 * static_cast<double>(std::numeric_limits<T>::epsilon());
    constexpr T epsilon = T(1e-5);
    constexpr std::size_t rows = 6;  // beyond the number that are worked on together
    for (std::size_t width = 1; width <= 70; ++width)
        for (const std::size_t offset : {0, 1, 3}) {
            const auto at = [](std::size_t i, double phase) {
                return static_cast<T>(2.0 + std::sin(static_cast<double>(i) * phase));
            };
            const std::size_t size = rows * width;
            std::vector<T> x(offset + size), z(offset + size), gain(width), bias(width), dy(size), h(size), s(rows);
            for (std::size_t i = 0; i < size; ++i) {
                x[offset + i] = at(i, 1.3);
                z[offset + i] = at(i, 0.7);
                dy[i] = at(i, 2.1);
            }
            for (std::size_t i = 0; i < width; ++i) {
                gain[i] = at(i, 0.4);
                bias[i] = at(i, 0.9);
            }
            // y = norm(2 x - z), written over z; then dx = 3 dy's gradient + 0.5 x, written over x.
            std::vector<T> y = z, dx = x, dgain(width), dbias(width);
            if (!divided) s.assign(rows, T(1.25));
            const Term<T> terms[] = {{T(2), x.data() + offset}, {T(-1), y.data() + offset}};
            KERNEL_OF(set, norm_rows<norm>, terms, std::size_t{2}, std::size_t{0}, rows, width, epsilon, gain.data(),
                      bias.data(), y.data() + offset, h.data(), s.data());
            const Term<T> residual{T(0.5), dx.data() + offset};
            KERNEL_OF(set, norm_backward_rows<norm>, dy.data(), T(3), &residual, std::size_t{1}, std::size_t{0}, rows,
                      width, gain.data(), h.data(), s.data(), dx.data() + offset, dgain.data(), dbias.data());
            const auto exact = [](T v) { return static_cast<double>(v); };
            double worst = 0.0;
            std::vector<double> expected_dgain(width), expected_dbias(width);
            for (std::size_t r = 0; r < rows; ++r) {
                const auto v = [&](std::size_t i) {
                    return 2.0 * exact(x[offset + r * width + i]) - exact(z[offset + r * width + i]);
                };
                double mean = 0.0, square = 0.0, g_mean = 0.0, projection = 0.0;
                for (std::size_t i = 0; i < width; ++i) mean += centred ? v(i) / static_cast<double>(width) : 0.0;
                for (std::size_t i = 0; i < width; ++i) square += (v(i) - mean) * (v(i) - mean);
                const double inverse =
                    divided ? 1.0 / std::sqrt(square / static_cast<double>(width) + exact(epsilon)) : 1.25;
                const auto g = [&](std::size_t i) { return 3.0 * exact(gain[i]) * exact(dy[r * width + i]); };
                const auto normalized = [&](std::size_t i) { return (v(i) - mean) * inverse; };
                for (std::size_t i = 0; i < width; ++i) {
                    g_mean += centred ? g(i) / static_cast<double>(width) : 0.0;
                    projection += divided ? g(i) * normalized(i) / static_cast<double>(width) : 0.0;
                    expected_dgain[i] += 3.0 * exact(dy[r * width + i]) * normalized(i);
                    expected_dbias[i] += 3.0 * exact(dy[r * width + i]);
                }
                for (std::size_t i = 0; i < width; ++i) {
                    const std::size_t place = offset + r * width + i;
                    worst =
                        std::max(worst, std::abs(exact(y[place]) - (exact(gain[i]) * normalized(i) + exact(bias[i]))));
                    const double d = inverse * (g(i) - g_mean - normalized(i) * projection) + 0.5 * exact(x[place]);
                    worst = std::max(worst, std::abs(exact(dx[place]) - d) / (1.0 + inverse));
                }
            }
            for (std::size_t i = 0; i < width; ++i)
                worst = std::max({worst, std::abs(exact(dgain[i]) - expected_dgain[i]),
                                  std::abs(exact(dbias[i]) - expected_dbias[i])});
            CAPTURE(static_cast<int>(set));
            CAPTURE(width);
            CAPTURE(offset);
            CHECK(worst < tolerance);
        }
}

}  // namespace

TEST_CASE_TEMPLATE("a norm's rows of every width and alignment, on every instruction set", T, float, double) {
    for (const InstructionSet set : instruction_sets()) {
        check_norm_rows<T, RowNorm::centred_and_divided>(set);
        check_norm_rows<T, RowNorm::divided>(set);
        check_norm_rows<T, RowNorm::centred>(set);
    }
}

TEST_CASE_TEMPLATE("a norm's rows in place, on every instruction set", T, float, double) {
    constexpr std::size_t rows = 6;
    for (const InstructionSet set : instruction_sets())
        for (const std::size_t width : {1, 7, 16, 33, 70, 600}) {
            std::vector<T> x(rows * width), y(x.size()), h(x.size()), s(rows), gain(width), again = h, once_more = s;
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::sin(static_cast<double>(i)));
            for (std::size_t i = 0; i < width; ++i) gain[i] = static_cast<T>(i + 1);
            const Term<T> term{T(1), x.data()};
            const T* no_bias = nullptr;
            KERNEL_OF(set, norm_rows<RowNorm::centred_and_divided>, &term, std::size_t{1}, std::size_t{0}, rows, width,
                      T(1e-5), gain.data(), no_bias, y.data(), h.data(), s.data());
            KERNEL_OF(set, norm_rows<RowNorm::centred_and_divided>, &term, std::size_t{1}, std::size_t{0}, rows, width,
                      T(1e-5), gain.data(), no_bias, x.data(), again.data(), once_more.data());
            CAPTURE(static_cast<int>(set));
            CAPTURE(width);
            for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == gain[i % width] * h[i]);
            CHECK(x == y);
            CHECK(again == h);
            CHECK(once_more == s);
        }
}

TEST_CASE_TEMPLATE("DyT's tanh is within 2.5 ulp, and NaN stays NaN", T, float, double) {
    std::vector<T> x;
    for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<T>(i) / T(400));      // to 10
    for (int i = -60; i <= 60; ++i) x.push_back(static_cast<T>(std::exp2(0.5 * i)));  // to a billion
    for (int i = 0; i < 40; ++i) x.push_back(T(0.5) + static_cast<T>(i - 20) * std::numeric_limits<T>::epsilon());
    for (const T edge : {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), T(0)})
        x.push_back(edge);
    x.push_back(std::numeric_limits<T>::quiet_NaN());
    const std::vector<T> gain(x.size(), T(1));
    const T* no_bias = nullptr;
    for (const InstructionSet set : instruction_sets()) {
        std::vector<T> y(x.size()), input = y, h = y;
        const Term<T> term{T(1), x.data()};
        KERNEL_OF(set, dyt_rows, &term, std::size_t{1}, std::size_t{0}, std::size_t{1}, x.size(), T(1), gain.data(),
                  no_bias, y.data(), input.data(), h.data());
        double worst = 0.0;
        for (std::size_t i = 0; i + 1 < x.size(); ++i)
            worst = std::max(worst, ulps(y[i], std::tanh(static_cast<long double>(x[i]))));
        CAPTURE(static_cast<int>(set));
        CHECK(worst < 2.5);
        CHECK(std::isnan(y.back()));
    }
}

// As the norms' rows above: y = DyT(2 x - z), written over z; then dx = 3 dy's gradient + 0.5 x, written over x.
TEST_CASE_TEMPLATE("DyT's rows of every width and alignment, on every instruction set", T, float, double) {
    constexpr double tolerance = 4096 * static_cast<double>(std::numeric_limits<T>::epsilon());
    constexpr std::size_t rows = 2;
    constexpr T alpha = T(0.75);
    for (const InstructionSet set : instruction_sets())
        for (std::size_t width = 1; width <= 40; ++width)
            for (const std::size_t offset : {0, 1, 3}) {
                const std::size_t size = rows * width;
                const auto at = [](std::size_t i, double phase) {
                    return static_cast<T>(std::sin(static_cast<double>(i) * phase));
                };
                std::vector<T> x(offset + size), z(offset + size), dy(size), input(size), h(size), gain(width),
                    bias(width), dgain(width), dbias(width);
                for (std::size_t i = 0; i < size; ++i) {
                    x[offset + i] = at(i, 1.3);
                    z[offset + i] = at(i, 0.7);
                    dy[i] = at(i, 2.1);
                }
                for (std::size_t i = 0; i < width; ++i) {
                    gain[i] = at(i + 1, 0.4);
                    bias[i] = at(i + 1, 0.9);
                }
                std::vector<T> y = z, dx = x;
                const Term<T> terms[] = {{T(2), x.data() + offset}, {T(-1), y.data() + offset}};
                KERNEL_OF(set, dyt_rows, terms, std::size_t{2}, std::size_t{0}, rows, width, alpha, gain.data(),
                          bias.data(), y.data() + offset, input.data(), h.data());
                const Term<T> residual{T(0.5), dx.data() + offset};
                const T dalpha = KERNEL_OF(set, dyt_backward_rows, dy.data(), T(3), &residual, std::size_t{1},
                                           std::size_t{0}, rows, width, alpha, gain.data(), input.data(), h.data(),
                                           dx.data() + offset, dgain.data(), dbias.data());
                const auto exact = [](T v) { return static_cast<double>(v); };
                double worst = 0.0, expected_dalpha = 0.0;
                std::vector<double> expected_dgain(width), expected_dbias(width);
                for (std::size_t i = 0; i < size; ++i) {
                    const std::size_t c = i % width;
                    const double v = 2.0 * exact(x[offset + i]) - exact(z[offset + i]), t = std::tanh(exact(alpha) * v),
                                 d = 3.0 * exact(dy[i]), u = exact(gain[c]) * d * (1.0 - t * t);
                    expected_dalpha += u * v;
                    expected_dgain[c] += d * t;
                    expected_dbias[c] += d;
                    worst =
                        std::max({worst, std::abs(exact(y[offset + i]) - (exact(gain[c]) * t + exact(bias[c]))),
                                  std::abs(exact(dx[offset + i]) - (exact(alpha) * u + 0.5 * exact(x[offset + i])))});
                }
                for (std::size_t c = 0; c < width; ++c)
                    worst = std::max({worst, std::abs(exact(dgain[c]) - expected_dgain[c]),
                                      std::abs(exact(dbias[c]) - expected_dbias[c])});
                worst = std::max(worst, std::abs(exact(dalpha) - expected_dalpha) / static_cast<double>(width));
                CAPTURE(static_cast<int>(set));
                CAPTURE(width);
                CAPTURE(offset);
                CHECK(worst < tolerance);
            }
}

// Two tiles of a causal mask, the second with padding, in rows of every length, against the softmax of the whole row.
TEST_CASE_TEMPLATE("a tile's softmax, on every instruction set", T, float, double) {
    const double tolerance = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
    constexpr std::size_t rows = 3, before = 5;
    constexpr T infinity = std::numeric_limits<T>::infinity();
    for (const InstructionSet set : instruction_sets())
        for (std::size_t columns = 1; columns <= 40; ++columns) {
            const std::size_t stride = columns + 3;
            const Tile first{rows, before, before, 5}, second{rows, columns, stride, static_cast<int>(columns) - 2};
            std::vector<T> a(rows * before), b(rows * stride, T(7)), mask(columns, T(0));
            for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(std::sin(static_cast<double>(i)));
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t c = 0; c < columns; ++c)
                    b[r * stride + c] = static_cast<T>(3.0 * std::cos(static_cast<double>(r + 5 * c)));
            mask[columns / 2] = -infinity;
            const std::vector<T> scores_a = a, scores_b = b;
            std::vector<T> maximum(rows, -infinity), total(rows, T(0)), rescale(rows);
            const T* none = nullptr;
            KERNEL_OF(set, softmax_tile, first, a.data(), none, maximum.data(), total.data(), rescale.data());
            KERNEL_OF(set, softmax_tile, second, b.data(), mask.data(), maximum.data(), total.data(), rescale.data());
            double worst = 0.0;
            for (std::size_t r = 0; r < rows; ++r) {
                double expected_total = 0.0;
                const auto check = [&](T score, bool seen, double got) {
                    const double p =
                        seen ? std::exp(static_cast<double>(score) - static_cast<double>(maximum[r])) : 0.0;
                    expected_total += p;
                    worst = std::max(worst, std::abs(got - p));
                };
                for (std::size_t c = 0; c < before; ++c)
                    check(scores_a[r * before + c], true, static_cast<double>(a[r * before + c] * rescale[r]));
                for (std::size_t c = 0; c < columns; ++c)
                    check(scores_b[r * stride + c], c + 2 < columns + r && c != columns / 2,
                          static_cast<double>(b[r * stride + c]));
                worst = std::max(worst, std::abs(static_cast<double>(total[r]) / expected_total - 1.0));
                for (std::size_t c = columns; c < stride; ++c) CHECK(b[r * stride + c] == T(7));
            }
            CAPTURE(static_cast<int>(set));
            CAPTURE(columns);
            CHECK(worst < tolerance);
        }
}

// Forward and backward of a tile, with dropout: where it drops, and what is left of a total and of a gradient.
TEST_CASE_TEMPLATE("a tile's softmax with dropout, on every instruction set", T, float, double) {
    constexpr std::size_t rows = 3, most = 40;
    constexpr std::uint64_t seeds[rows] = {1, 2, 0x123456789abcdefu};
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const T* none = nullptr;
    const std::vector<T> log_total(rows, T(0)), projection(rows, T(0.5));
    const auto dropped = [&](InstructionSet set, std::size_t columns, std::uint32_t first) {
        const Tile tile{rows, columns, columns, static_cast<std::ptrdiff_t>(columns) - 1};
        const TileDropout<T> dropout{seeds, first, 0x60000000u, T(1.6)};
        std::vector<T> scores(rows * columns, T(0)), weights = scores, gradient(rows * columns, T(1));
        std::vector<T> maximum(rows, -infinity), total(rows, T(0)), rescale(rows);
        KERNEL_OF(set, softmax_tile, tile, scores.data(), none, maximum.data(), total.data(), rescale.data(), dropout);
        KERNEL_OF(set, softmax_backward_tile, tile, weights.data(), gradient.data(), none, log_total.data(),
                  projection.data(), dropout);
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            const std::size_t seen = std::min(columns, columns - 1 + r);
            wrong += total[r] != static_cast<T>(seen);  // of all that is seen, dropped or not
            for (std::size_t c = 0; c < columns; ++c) {
                const T p = scores[r * columns + c];
                wrong += p != T(0) && p != T(1.6);
                wrong += c >= seen && p != T(0);
                wrong += weights[r * columns + c] != p;
                wrong += gradient[r * columns + c] != (c < seen ? p - T(0.5) : T(0));
            }
        }
        CHECK(wrong == 0);
        return scores;
    };
    for (const InstructionSet set : instruction_sets()) {
        CAPTURE(static_cast<int>(set));
        for (std::size_t columns = 1; columns <= most; ++columns)
            CHECK(dropped(set, columns, 5) == dropped(InstructionSet::baseline, columns, 5));
        // A tile that begins three columns later has the same columns three earlier.
        const std::vector<T> here = dropped(set, most, 5), later = dropped(set, most - 3, 8);
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < most - 4; ++c) CHECK(here[r * most + c + 3] == later[r * (most - 3) + c]);
        CHECK(std::count(here.begin(), here.end(), T(0)) > 20);  // of 120; 46 are expected
        CHECK(std::count(here.begin(), here.end(), T(0)) < 70);
    }
}
