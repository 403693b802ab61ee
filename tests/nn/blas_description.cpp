// The BLAS that this program runs on is named, and is not the reference BLAS; slow kernels are named as well.
#include <doctest/doctest.h>

#include <sstream>

#include <normplace/detail/blas.hpp>
#include <normplace/nn/blas_description.hpp>

using namespace normplace;
using detail::describe_openblas;
using detail::InstructionSet;

namespace {

std::string text(const BlasDescription& blas) {
    std::ostringstream stream;
    stream << blas;
    return stream.str();
}

constexpr auto debian = "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64";

}  // namespace

TEST_CASE("this program's BLAS is named in one line, and is fast") {
    // A program that multiplies nothing need not have a BLAS.
    const float two = 2.0f;
    float four = 0.0f;
    detail::gemm(detail::Transposed::no, detail::Transposed::no, 1, 1, 1, 1.0f, &two, 1, &two, 1, 0.0f, &four, 1);
    CHECK(four == 4.0f);

    const BlasDescription blas = blas_description();
    const std::string line = text(blas);
    MESSAGE(line);
    CHECK_FALSE(blas.library.empty());
    CHECK(line.find('\n') == std::string::npos);
    CHECK_MESSAGE(!blas.reference,
                  "this is the reference BLAS, tens of times slower than others: apt-get install libopenblas-dev");
}

TEST_CASE("an OpenBLAS that has the processor's own kernels needs no advice") {
    CHECK(text(describe_openblas(debian, "SkylakeX", InstructionSet::avx512)) == "OpenBLAS 0.3.21, SkylakeX kernels");
    CHECK(text(describe_openblas(debian, "Haswell", InstructionSet::avx2)) == "OpenBLAS 0.3.21, Haswell kernels");
    CHECK(text(describe_openblas(debian, "Nehalem", InstructionSet::baseline)) == "OpenBLAS 0.3.21, Nehalem kernels");
    CHECK(text(describe_openblas("OpenBLAS 0.4.0", "Zen9", InstructionSet::avx512)) == "OpenBLAS 0.4.0, Zen9 kernels");
}

TEST_CASE("an OpenBLAS with kernels of an older processor says what to do") {
    CHECK(text(describe_openblas(debian, "Prescott", InstructionSet::avx512)) ==
          "OpenBLAS 0.3.21, Prescott kernels; OPENBLAS_CORETYPE=SkylakeX makes products up to 5 "
          "times as fast");
    CHECK(describe_openblas(debian, "Prescott", InstructionSet::avx2).advice ==
          "OPENBLAS_CORETYPE=Haswell makes products up to 3 times as fast");
    CHECK(describe_openblas(debian, "ZEN", InstructionSet::avx512).advice ==
          "OPENBLAS_CORETYPE=SkylakeX makes products up to 2 times as fast");
    CHECK(describe_openblas("OpenBLAS 0.3.21 HASWELL", "HASWELL", InstructionSet::avx512).advice ==
          "an OpenBLAS built with DYNAMIC_ARCH makes products up to 2 times as fast");
}
