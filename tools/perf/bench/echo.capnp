# SPDX-License-Identifier: BSD-3-Clause
@0xb2d7f0a1c94e6835;
interface Echo {
  call @0 (data :Data) -> (data :Data);
}
