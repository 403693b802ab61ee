// The loops over rows: exp within the ulp that is promised, every instruction set alike, and each length of a row's
// end.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <normplace/detail/kernels.hpp>
#include <normplace/placement/activation.hpp>

using namespace normplace::detail;

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
    if (set == InstructionSet::baseline) table.sum = baseline::exp_row(x.data(), T(0), table.y.data(), x.size());
#if defined(__x86_64__)
    if (set == InstructionSet::avx2) table.sum = avx2::exp_row(x.data(), T(0), table.y.data(), x.size());
    if (set == InstructionSet::avx512) table.sum = avx512::exp_row(x.data(), T(0), table.y.data(), x.size());
#endif
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
        NORMPLACE_KERNEL(combine, terms, std::size_t{2}, y.data(), std::size_t{0}, y.size());
        CHECK(y == std::vector<T>(y.size(), T(-1)));
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
    NORMPLACE_KERNEL(gelu_rows, u.data(), y.data(), u.size());
    NORMPLACE_KERNEL(gelu_backward_rows, u.data(), dy.data(), du.data(), u.size());
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
